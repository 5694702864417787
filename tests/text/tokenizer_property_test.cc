#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "golden_vocabulary.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

// Properties over seeded random texts; a failure prints the seed of its text.

namespace helix::text::tokenizer_property_test {
namespace {

using base::Random;
using namespace testing_support;

constexpr int kTexts = 3000;

// ASCII, other scripts, emoji, control characters; with invalid: bytes that are no UTF-8 too.
std::string random_text(std::uint64_t seed, bool invalid) {
    static constexpr std::array<std::pair<char32_t, char32_t>, 9> kRanges = {{{0x20, 0x7e},
                                                                              {0x00, 0x1f},
                                                                              {0x80, 0x24f},
                                                                              {0x400, 0x52f},
                                                                              {0x5d0, 0x6ff},
                                                                              {0x2000, 0x2070},
                                                                              {0x4e00, 0x9fff},
                                                                              {0xac00, 0xd7a3},
                                                                              {0x1f300, 0x1f64f}}};
    static constexpr std::array<std::string_view, 8> kWords = {
        " machine", "the layers", "  ", "\r\n", "It's", "1024", "<|im_end|>", "\xe2\x96\x81"};
    Random random(seed);
    std::string text;
    for (std::uint64_t left = random.below(24); left > 0; --left) {
        if (random.chance(0.3)) {
            text += kWords[random.below(kWords.size())];
        } else if (invalid && random.chance(0.3)) {
            text.push_back(static_cast<char>(random.below(256)));
        } else {
            const auto [low, high] = kRanges[random.below(kRanges.size())];
            append_utf8(text, static_cast<char32_t>(low + random.below(high - low + 1)));
        }
    }
    return text;
}

TEST(TokenizerProperty, ByteLevelGivesBackEveryByte) {
    Vocabulary v = byte_vocabulary();
    for (const char* pre : {"default", "gpt-2", "llama-bpe", "qwen2", "gpt-4o", "starcoder",
                            "kimi-k2", "deepseek-llm", "deepseek-v3"}) {
        v.pre = pre;
        const auto t = make_tokenizer(v);
        for (std::uint64_t seed = 0; seed < kTexts; ++seed) {
            const std::string text = random_text(seed, seed % 2 == 1);
            const auto ids =
                t->encode(text, {.add_special = false, .parse_special = seed % 3 == 0});
            ASSERT_EQ(joined_bytes(*t, ids), text) << pre << ", seed " << seed;
            if (seed % 2 == 0) {
                ASSERT_EQ(decode(*t, ids, {.skip_special_tokens = false}), text) << "seed " << seed;
            }
        }
    }
}

TEST(TokenizerProperty, SentencePieceGivesBackEveryByteButTheSpaceSign) {
    const auto t = make_tokenizer(spm_vocabulary());
    for (std::uint64_t seed = 0; seed < kTexts; ++seed) {
        const std::string text = random_text(seed, seed % 2 == 1);
        std::string expected = text;  // "▁" cannot be told from a space
        for (std::size_t at = 0; (at = expected.find("\xe2\x96\x81", at)) != std::string::npos;) {
            expected.replace(at, 3, " ");
        }
        const auto ids = t->encode(text, {.add_special = false});
        ASSERT_EQ(joined_bytes(*t, ids), (text.empty() ? "" : " ") + expected) << "seed " << seed;
        if (seed % 2 == 0) {
            ASSERT_EQ(decode(*t, ids), expected) << "seed " << seed;
        }
    }
}

TEST(TokenizerProperty, EncodingWordByWordChangesNothing) {
    const auto by_words = make_tokenizer(spm_vocabulary());
    Vocabulary v = spm_vocabulary();
    v.tokens.emplace_back("q\xe2\x96\x81");  // the corpus has no word that ends in q
    v.scores.push_back(0);
    v.kinds.push_back(TokenKind::normal);
    const auto whole = make_tokenizer(v);
    EXPECT_EQ(whole->encode("q q").at(2), whole->vocab_size() - 1);
    for (std::uint64_t seed = 0; seed < kTexts; ++seed) {
        const std::string text = random_text(seed, seed % 2 == 1);
        if (text.find('q') != std::string::npos) continue;
        ASSERT_EQ(by_words->encode(text), whole->encode(text)) << "seed " << seed;
    }
}

TEST(TokenizerProperty, CuttingATextAtASpecialTokenEncodesThePartsApart) {
    Vocabulary v = byte_vocabulary();
    v.pre = "qwen2";
    const auto t = make_tokenizer(v);
    const EncodeOptions plain{.add_special = false};
    const Token end = id_of(*t, "<|im_end|>");
    for (std::uint64_t seed = 0; seed < 500; ++seed) {
        const std::string left = random_text(2 * seed, true);
        const std::string right = random_text(2 * seed + 1, true);
        if ((left + right).find('<') != std::string::npos) continue;
        auto expected = t->encode(left, plain);
        expected.push_back(end);
        for (const Token id : t->encode(right, plain)) expected.push_back(id);
        ASSERT_EQ(
            t->encode(left + "<|im_end|>" + right, {.add_special = false, .parse_special = true}),
            expected)
            << "seed " << seed;
    }
}

}  // namespace
}  // namespace helix::text::tokenizer_property_test
