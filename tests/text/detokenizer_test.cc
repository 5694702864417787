#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "base/effort.h"
#include "base/random.h"
#include "golden_vocabulary.h"
#include "text/utf8.h"

namespace helix::text::detokenizer_test {
namespace {

using base::Random;
using namespace testing_support;

// Replaces what is no UTF-8 by the wording of the rule alone: the longest start of some character,
// or one byte, becomes U+FFFD. It knows characters only by listing them all.
class SlowSanitizer {
  public:
    SlowSanitizer() {
        for (char32_t c = 0; c <= 0x10ffff; ++c) {
            if (c >= 0xd800 && c <= 0xdfff) continue;
            std::string bytes;
            append_utf8(bytes, c);
            for (std::size_t n = 1; n < bytes.size(); ++n) starts_.insert(bytes.substr(0, n));
            if (c < 0x80 || c >= 0x10000) continue;
            whole_.insert(bytes);
        }
    }

    std::string sanitize(std::string_view text) const {
        std::string out;
        while (!text.empty()) {
            std::size_t n = character_length(text);
            if (n > 0) {
                out += text.substr(0, n);
            } else {
                for (n = 1;
                     n < text.size() && starts_.contains(std::string(text.substr(0, n + 1)));)
                    ++n;
                out += kReplacement;
            }
            text.remove_prefix(n);
        }
        return out;
    }

  private:
    std::size_t character_length(std::string_view text) const {
        if (static_cast<unsigned char>(text[0]) < 0x80) return 1;
        for (const std::size_t n : {std::size_t{2}, std::size_t{3}}) {
            if (whole_.contains(std::string(text.substr(0, n)))) return n;
        }
        // Four bytes: a start of three and any last byte.
        const bool four = text.size() >= 4 && starts_.contains(std::string(text.substr(0, 3))) &&
                          (static_cast<unsigned char>(text[3]) & 0xc0U) == 0x80U;
        return four ? 4 : 0;
    }

    std::set<std::string> starts_;
    std::set<std::string> whole_;  // of two and three bytes
};

std::string streamed(const std::shared_ptr<const Tokenizer>& t, const std::vector<Token>& ids,
                     DetokenizerOptions options) {
    Detokenizer d(t, options);
    std::string out;
    for (const Token id : ids) out += d.push(id);
    return out + d.flush();
}

Token byte_token(const Tokenizer& t, unsigned char byte) {
    for (Token id = 0; id < t.vocab_size(); ++id) {
        if (t.token_bytes(id) == std::string(1, static_cast<char>(byte)) && !t.is_special(id))
            return id;
    }
    ADD_FAILURE() << "no token for byte " << int{byte};
    return 0;
}

TEST(Detokenizer, ACharacterComesOutWhole) {
    const auto t = make_tokenizer(byte_vocabulary());
    Detokenizer d(t);
    const std::string rocket = "\xf0\x9f\x9a\x80";
    EXPECT_EQ(d.push(byte_token(*t, 0xf0)), "");
    EXPECT_EQ(d.push(byte_token(*t, 0x9f)), "");
    EXPECT_EQ(d.push(byte_token(*t, 0x9a)), "");
    EXPECT_EQ(d.push(byte_token(*t, 0x80)), rocket);
    EXPECT_EQ(d.flush(), "");
}

TEST(Detokenizer, InvalidBytesAreReplacedAsSoonAsTheyAreKnown) {
    const auto t = make_tokenizer(byte_vocabulary());
    Detokenizer d(t);
    EXPECT_EQ(d.push(byte_token(*t, 0xff)), "\xef\xbf\xbd");
    EXPECT_EQ(d.push(byte_token(*t, 0xe2)), "");
    EXPECT_EQ(d.push(byte_token(*t, 0x96)), "");
    EXPECT_EQ(d.push(byte_token(*t, 'a')),
              "\xef\xbf\xbd"
              "a");
    EXPECT_EQ(d.push(byte_token(*t, 0xed)), "");
    EXPECT_EQ(d.push(byte_token(*t, 0xa0)),
              "\xef\xbf\xbd\xef\xbf\xbd");  // a surrogate's first half
    EXPECT_EQ(d.push(byte_token(*t, 0xc3)), "");
    EXPECT_EQ(d.flush(), "\xef\xbf\xbd");
    EXPECT_EQ(d.flush(), "");
}

TEST(Detokenizer, TheFirstSpaceGoesOnlyFromTheStartOfAText) {
    const auto t = make_tokenizer(spm_vocabulary());
    const Token the = id_of(*t, "\xe2\x96\x81the");
    const std::vector<Token> ids = {1, the, the};
    EXPECT_EQ(streamed(t, ids, {.starts_text = true}), "the the");
    EXPECT_EQ(streamed(t, ids, {.starts_text = false}), " the the");
    EXPECT_EQ(decode(*t, ids), "the the");
    // A printed special token is the start; the space after it stays.
    EXPECT_EQ(decode(*t, ids, {.skip_special_tokens = false, .starts_text = true}), "<s> the the");
    const auto bytes = make_tokenizer(byte_vocabulary());
    EXPECT_EQ(decode(*bytes, bytes->encode(" the")), " the");
}

TEST(Detokenizer, SpecialTokensAreSkippedUnlessAskedFor) {
    const auto t = make_tokenizer(byte_vocabulary());
    const auto ids = t->encode("a<|im_end|><tool>", {.parse_special = true});
    EXPECT_EQ(streamed(t, ids, {}), "a<tool>");
    EXPECT_EQ(streamed(t, ids, {.skip_special_tokens = false}), "a<|im_end|><tool>");
}

TEST(Detokenizer, ChosenSpecialTokensAreShownAlthoughOthersAreSkipped) {
    const auto t = make_tokenizer(byte_vocabulary());
    const auto end = t->encode("<|im_end|>", {.parse_special = true});
    ASSERT_EQ(end.size(), 1U);
    const auto shown = std::make_shared<const std::vector<Token>>(end);
    EXPECT_EQ(streamed(t, {end[0], end[0]}, {.shown = shown}), "<|im_end|><|im_end|>");
    const auto none = std::make_shared<const std::vector<Token>>();
    EXPECT_EQ(streamed(t, {end[0]}, {.shown = none}), "");
}

TEST(Detokenizer, WhereAnswersHaveChannelsTheEndOfAMessageIsNoEndOfTheAnswer) {
    const auto ends = [](std::vector<std::string> more, const std::string& text) {
        Vocabulary vocabulary = byte_vocabulary();
        if (vocabulary.kinds.empty()) {
            vocabulary.kinds.assign(vocabulary.tokens.size(), TokenKind::normal);
        }
        for (std::string& token : more) {
            vocabulary.tokens.push_back(std::move(token));
            vocabulary.kinds.push_back(TokenKind::control);
        }
        const auto t = make_tokenizer(std::move(vocabulary));
        return t->is_end_of_generation(id_of(*t, text));
    };
    const std::vector<std::string> harmony = {"<|end|>", "<|return|>", "<|call|>", "<|channel|>"};
    EXPECT_FALSE(ends(harmony, "<|end|>"));
    EXPECT_TRUE(ends(harmony, "<|return|>"));
    EXPECT_TRUE(ends(harmony, "<|call|>"));
    EXPECT_TRUE(ends({"<|end|>"}, "<|end|>"));
    EXPECT_TRUE(ends({"<|eom_id|>"}, "<|eom_id|>"));
}

TEST(Detokenizer, StreamEqualsTheWholeForEveryCutOfRandomTokens) {
    const SlowSanitizer oracle;
    for (const auto& t : {make_tokenizer(byte_vocabulary()), make_tokenizer(spm_vocabulary())}) {
        for (std::uint64_t seed = 0; seed < (kSanitized ? 3 : 2000); ++seed) {
            Random random(seed);
            const DetokenizerOptions options{.skip_special_tokens = random.chance(0.5),
                                             .starts_text = random.chance(0.5)};
            Detokenizer d(t, options);
            std::vector<Token> ids;
            std::string bytes;
            std::string so_far;
            for (int i = 0; i < 12; ++i) {
                // Half of them single bytes, which make the broken characters.
                const auto bound =
                    random.chance(0.5) ? 259 : static_cast<std::uint64_t>(t->vocab_size());
                ids.push_back(static_cast<Token>(random.below(bound)));
                so_far += d.push(ids.back());
                bytes += options.skip_special_tokens && t->is_special(ids.back())
                             ? std::string_view()
                             : t->token_bytes(ids.back());
                std::string_view kept = bytes;
                if (options.starts_text && t->adds_space_prefix() && kept.starts_with(' ')) {
                    kept.remove_prefix(1);
                }
                const std::string whole = oracle.sanitize(kept);
                ASSERT_EQ(decode(*t, ids, options), whole) << "seed " << seed << ", cut " << i;
                ASSERT_EQ(oracle.sanitize(so_far), so_far) << "seed " << seed << ", cut " << i;
                Detokenizer copy = d;
                ASSERT_EQ(so_far + copy.flush(), whole) << "seed " << seed << ", cut " << i;
            }
        }
    }
}

}  // namespace
}  // namespace helix::text::detokenizer_test
