// SentencePiece's unigram model: the way with the best scores against all ways, the map of
// characters, and tokenizer.json against the GGUF file of the same vocabulary.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/base64.h"
#include "base/random.h"
#include "golden_vocabulary.h"
#include "model/gguf_writer.h"
#include "model/hf/hf_tokenizer.h"
#include "model/hf_folder.h"
#include "model/temporary_folder.h"
#include "text/char_map.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace helix::text::unigram_test {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::HasSubstr;

using Entries = std::map<std::string, std::string>;

std::string bytes_of(std::uint32_t number) {
    std::string bytes;
    for (unsigned shift = 0; shift < 32; shift += 8)
        bytes.push_back(static_cast<char>(number >> shift & 0xffU));
    return bytes;
}

// Writes a map in its format, from the root down.
class MapWriter {
  public:
    explicit MapWriter(const Entries& entries) : entries_(entries) { place(0, ""); }

    std::string bytes() const {
        std::string out = bytes_of(static_cast<std::uint32_t>(units_.size() * 4));
        for (const std::uint32_t unit : units_) out += bytes_of(unit);
        return out + texts_;
    }

  private:
    // Gives the node at this place, whose way is the prefix, its children.
    void place(std::uint32_t at, const std::string& prefix) {
        std::set<unsigned char> children;
        for (const auto& [key, text] : entries_) {
            if (key.size() > prefix.size() && key.starts_with(prefix))
                children.insert(static_cast<unsigned char>(key[prefix.size()]));
        }
        const auto own = entries_.find(prefix);
        const bool is_entry = own != entries_.end();
        std::uint32_t base = 1;
        const auto is_free = [&](std::uint32_t slot) { return slot > 0 && !used_.contains(slot); };
        const auto fits = [&] {
            if (bases_.contains(base) || (is_entry && !is_free(base))) return false;
            return std::all_of(children.begin(), children.end(),
                               [&](unsigned char c) { return is_free(base ^ c); });
        };
        while (!fits()) ++base;
        bases_.insert(base);
        unit(at) |= (at ^ base) << 10U | (is_entry ? 1U << 8U : 0U);
        if (is_entry) {
            used_.insert(base);
            unit(base) = 1U << 31U | static_cast<std::uint32_t>(texts_.size());
            texts_ += own->second + '\0';
        }
        for (const unsigned char c : children) {
            used_.insert(base ^ c);
            unit(base ^ c) = c;
        }
        for (const unsigned char c : children) place(base ^ c, prefix + static_cast<char>(c));
    }
    std::uint32_t& unit(std::uint32_t at) {
        if (units_.size() <= at) units_.resize(at + 1);
        return units_[at];
    }

    const Entries& entries_;
    std::vector<std::uint32_t> units_;
    std::string texts_;
    std::set<std::uint32_t> used_, bases_;
};

const Entries kEntries = {{"\n", " "},      {"\t", " "}, {"\u3000", " "}, {"ﬁ", "fi"},
                          {"e\u0301", "é"}, {"Ａ", "A"}, {"zap", ""},     {"e\u0301\u0302", "ê"},
                          {"\xff", "?"}};

TEST(CharMap, GivesTheLongestEntry) {
    const auto map = CharMap::parse(MapWriter(kEntries).bytes());
    ASSERT_TRUE(map.ok()) << map.error().message;
    for (const auto& [key, text] : kEntries) {
        const CharMap::Entry entry = map->longest(key + "x");
        EXPECT_EQ(entry.length, key.size()) << key;
        EXPECT_EQ(entry.text, text) << key;
    }
    EXPECT_EQ(map->longest("e\u0301\u0303").text, "é");
    for (const char* none : {"", "e", "x", "za", "ex\u0301", "\xef"})
        EXPECT_EQ(map->longest(none).length, 0U) << none;
    EXPECT_EQ(map->longest(std::string_view("\0", 1)).length, 0U);
    EXPECT_EQ(CharMap().longest("a").length, 0U);
}

TEST(CharMap, BytesThatAreNoneAreRefusedOrHaveNoEntries) {
    const std::string good = MapWriter(kEntries).bytes();
    const auto error_of = [](const std::string& bytes) {
        const auto map = CharMap::parse(bytes);
        return map.ok() ? std::string() : map.error().message;
    };
    EXPECT_THAT(error_of("abc"), HasSubstr("3 bytes"));
    EXPECT_THAT(error_of(bytes_of(6) + "abcdefgh"), HasSubstr("a trie of 6 bytes of 8"));
    EXPECT_THAT(error_of(bytes_of(0) + "abcdefgh"), HasSubstr("a trie of 0 bytes"));
    EXPECT_THAT(error_of(bytes_of(80) + "abcdefgh"), HasSubstr("a trie of 80 bytes of 8"));
    EXPECT_THAT(error_of(good.substr(0, good.size() - 1)), HasSubstr("zero byte"));
    EXPECT_THAT(error_of(bytes_of(4) + bytes_of(1U << 31U | 3U) + std::string(3, '\0')),
                HasSubstr("unit 0 of the trie is of a text at 3, of 3 bytes"));
    // Whatever its units are, nothing outside is read (the sanitizers look).
    base::Random random(5);
    for (int i = 0; i < 2000; ++i) {
        std::string bytes = good;
        for (int k = 0; k < 4; ++k)
            bytes[random.below(bytes.size())] = static_cast<char>(random.below(256));
        const auto map = CharMap::parse(bytes);
        if (!map.ok()) continue;
        for (const auto& [key, text] : kEntries)
            EXPECT_LE(map->longest(key + "x").length, key.size() + 1);
    }
}

// <unk>, <s> and </s> first, then the tokens with these scores.
Vocabulary vocabulary_of(const std::vector<std::pair<std::string, float>>& tokens) {
    Vocabulary v;
    v.model = "t5";
    v.tokens = {"<s>", "</s>", "<unk>"};
    v.scores = {0, 0, 0};
    v.kinds = {TokenKind::control, TokenKind::control, TokenKind::unknown};
    for (const auto& [text, score] : tokens) {
        v.tokens.push_back(text);
        v.scores.push_back(score);
        v.kinds.push_back(TokenKind::normal);
    }
    v.bos = 0;
    v.eos = 1;
    v.unknown = 2;
    v.add_bos = v.add_eos = false;
    return v;
}

// The best of all ways to cut the text, found by trying them; of equal ones that whose last token
// is the longest, and so on.
struct BestWay {
    const Vocabulary& v;
    double unknown_score;
    double best = -std::numeric_limits<double>::infinity();
    std::vector<Token> tokens = {};
    std::vector<Token> now = {};
    std::vector<std::size_t> lengths = {};  // of tokens
    std::vector<std::size_t> lengths_now = {};

    void go(std::string_view rest, double score) {
        if (rest.empty()) {
            const bool later_are_longer = std::lexicographical_compare(
                lengths.rbegin(), lengths.rend(), lengths_now.rbegin(), lengths_now.rend());
            if (score > best || (score == best && later_are_longer)) {
                best = score;
                tokens = now;
                lengths = lengths_now;
            }
            return;
        }
        const std::size_t character = utf8_prefix(rest).length;
        bool known = false;
        for (std::size_t i = 3; i < v.tokens.size(); ++i) {
            if (!rest.starts_with(v.tokens[i])) continue;
            known = known || v.tokens[i].size() == character;
            take(static_cast<Token>(i), v.tokens[i].size(), rest,
                 score + static_cast<double>(v.scores[i]));
        }
        if (!known) take(2, character, rest, score + unknown_score);
    }
    void take(Token token, std::size_t length, std::string_view rest, double score) {
        now.push_back(token);
        lengths_now.push_back(length);
        go(rest.substr(length), score);
        now.pop_back();
        lengths_now.pop_back();
    }
};

TEST(Unigram, TheWayIsTheBestOfAll) {
    base::Random random(11);
    const std::vector<std::string> letters = {"a", "b", "é", "▁", "語"};
    for (int trial = 0; trial < 300; ++trial) {
        std::map<std::string, float> tokens;
        for (std::uint64_t n = 2 + random.below(12); n > 0; --n) {
            std::string text;
            // Some vocabularies have tokens of several words.
            for (std::uint64_t k = 1 + random.below(3); k > 0; --k)
                text += letters[random.below(letters.size() - (trial % 2 == 0 ? 0 : 2))];
            tokens[text] = -static_cast<float>(random.between(1, 80)) / 8;  // so sums are exact
        }
        const Vocabulary v = vocabulary_of({tokens.begin(), tokens.end()});
        const auto t = make_tokenizer(v);
        std::string text;
        for (std::uint64_t k = 1 + random.below(8); k > 0; --k) {
            const std::string& letter = letters[random.below(letters.size())];
            text += letter == "▁" ? " " : letter;
        }
        // As it is cut: a space first, one between words, none at the end.
        std::string cut;
        for (const char c : " " + text) {
            if (c != ' ') {
                cut.push_back(c);
            } else if (!cut.ends_with(' ')) {
                cut.push_back(' ');
            }
        }
        while (cut.ends_with(' ')) cut.pop_back();
        std::string marked;
        for (const char c : cut) marked += c == ' ' ? std::string("▁") : std::string(1, c);
        double worst = 0;
        for (const auto& [token, score] : tokens) worst = std::min(worst, double{score});
        BestWay all{v, worst - 10};
        all.go(marked, 0);
        const auto last = std::unique(all.tokens.begin(), all.tokens.end(),
                                      [](Token a, Token b) { return a == 2 && b == 2; });
        std::vector<Token> expected(all.tokens.begin(), last);
        // Words are cut one by one where no token goes on into the next; unknown tokens of two
        // words are not one then.
        std::vector<Token> found = t->encode(text);
        found.erase(std::unique(found.begin(), found.end(),
                                [](Token a, Token b) { return a == 2 && b == 2; }),
                    found.end());
        ASSERT_EQ(found, expected) << "trial " << trial << ": " << text;
    }
}

TEST(Unigram, CharactersAreMappedSpacesAreOneAndBytesAreReplaced) {
    Vocabulary v = vocabulary_of({{"▁", -3},
                                  {"▁fi", -2},
                                  {"fi", -4},
                                  {"é", -4},
                                  {"▁A", -2},
                                  {"A", -5},
                                  {"\ufffd", -6},
                                  {"<s>x", -1}});
    v.char_map = MapWriter(kEntries).bytes();
    const auto t = make_tokenizer(v);
    const auto texts = [&](std::string_view text) {
        std::string out;
        for (const Token token : t->encode(text)) {
            out += '|';
            out += t->vocabulary().tokens[static_cast<std::size_t>(token)];
        }
        return out;
    };
    EXPECT_EQ(texts("ﬁ"), "|▁fi");
    EXPECT_EQ(texts("  \n ﬁzap \t\u3000 Ａ  "), "|▁fi|▁A");
    EXPECT_EQ(texts("Ae\u0301"), "|▁A|é");
    EXPECT_EQ(texts("A\xfe"), "|▁A|\ufffd");
    EXPECT_EQ(texts("A漢字A"), "|▁A|<unk>|A");
    EXPECT_EQ(texts(" \n "), "");
    EXPECT_EQ(texts("<s>"), "|▁|<unk>");
    EXPECT_EQ(decode(*t, t->encode("ﬁ  A")), "fi A");

    v.add_bos = v.add_eos = true;
    EXPECT_THAT(make_tokenizer(v)->encode("A"), ElementsAre(0, id_of(*t, "▁A"), 1));
    v.remove_extra_spaces = false;
    v.add_space_prefix = false;
    v.add_bos = v.add_eos = false;
    const Token space = id_of(*t, "▁");
    EXPECT_THAT(make_tokenizer(v)->encode("A  A "),
                ElementsAre(id_of(*t, "A"), space, id_of(*t, "▁A"), space));
}

TEST(Unigram, WhatIsMissingIsNamed) {
    const auto error_of = [](Vocabulary v) {
        const auto made = Tokenizer::create(std::move(v));
        return made.ok() ? "no error" : made.error().message;
    };
    Vocabulary v = vocabulary_of({{"a", -1}});
    v.scores.clear();
    EXPECT_THAT(error_of(v), HasSubstr("tokenizer.ggml.scores: missing"));
    v = vocabulary_of({{"a", std::numeric_limits<float>::infinity()}});
    EXPECT_THAT(error_of(v), HasSubstr("tokenizer.ggml.scores: token 3 has score inf"));
    v = vocabulary_of({{"a", -1}});
    v.char_map = "abc";
    EXPECT_THAT(error_of(v), HasSubstr("tokenizer.ggml.precompiled_charsmap: 3 bytes"));
    EXPECT_THAT(error_of(vocabulary_of({})), HasSubstr("tokenizer.ggml.tokens: none"));
}

using model::test_support::Json;

// The tokenizer.json of multilingual models: of bge-m3 with split words, of E5 with spaces
// replaced.
Json folder_json(const Vocabulary& v, bool split) {
    Json vocab = Json::array();
    Json added = Json::array();
    for (std::size_t i = 0; i < v.tokens.size(); ++i) {
        vocab.push_back({v.tokens[i], v.scores[i]});
        if (v.kinds[i] != TokenKind::normal)
            added.push_back({{"id", i}, {"content", v.tokens[i]}, {"special", true}});
    }
    const Json precompiled = {{"type", "Precompiled"},
                              {"precompiled_charsmap", base::to_base64(v.char_map)}};
    const Json metaspace = {
        {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}};
    Json out;
    out["model"] = {{"type", "Unigram"}, {"unk_id", 2}, {"vocab", vocab}};
    out["added_tokens"] = added;
    if (split) {
        out["normalizer"] = precompiled;
        out["pre_tokenizer"] = {{"type", "Sequence"},
                                {"pretokenizers", {{{"type", "WhitespaceSplit"}}, metaspace}}};
    } else {
        const Json replace = {
            {"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}};
        out["normalizer"] = {{"type", "Sequence"}, {"normalizers", {precompiled, replace}}};
        out["pre_tokenizer"] = metaspace;
    }
    out["post_processor"] = {{"type", "TemplateProcessing"},
                             {"single",
                              {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
                               {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                               {{"SpecialToken", {{"id", "</s>"}, {"type_id", 0}}}}}}};
    return out;
}

base::Result<std::shared_ptr<const Tokenizer>> open_folder(const Json& tokenizer) {
    const model::test_support::TemporaryFolder files;
    const std::string folder = files.file("");
    model::test_support::write_file(folder + "/tokenizer.json", tokenizer.dump());
    model::test_support::write_file(folder + "/tokenizer_config.json",
                                    Json({{"bos_token", "<s>"}, {"eos_token", "</s>"}}).dump());
    model::GgufBuilder builder;
    model::HfConfig config;
    config.vocab = 100;
    TRY_VOID(model::read_hf_tokenizer(folder, config, builder));
    TRY(const auto header, model::GgufFile::from_header(builder.header()));
    TRY(auto vocabulary, read_vocabulary(*header));
    return Tokenizer::create(std::move(vocabulary));
}

TEST(Unigram, AFolderGivesTheTokensOfTheFile) {
    Vocabulary v = vocabulary_of({{"▁", -3},
                                  {"▁the", -2},
                                  {"▁fi", -2.5F},
                                  {"n", -4},
                                  {"a", -4},
                                  {"▁a", -3},
                                  {"é", -5},
                                  {"in", -3},
                                  {"i", -4},
                                  {"▁▁", -1}});
    v.char_map = MapWriter(kEntries).bytes();
    v.add_bos = v.add_eos = true;
    const auto expected = make_tokenizer(v);
    for (const bool split : {true, false}) {
        const auto found = open_folder(folder_json(v, split));
        ASSERT_TRUE(found.ok()) << found.error().message;
        base::Random random(9);
        const std::vector<std::string> pieces = {" ",  "  ", "the", "ﬁ",    "n",    "a", "e\u0301",
                                                 "in", "\n", "語",  "\xfd", "</s>", "i"};
        for (int trial = 0; trial < 300; ++trial) {
            std::string text;
            for (std::uint64_t n = random.below(12); n > 0; --n)
                text += pieces[random.below(pieces.size())];
            const EncodeOptions options{.add_special = trial % 2 == 0,
                                        .parse_special = trial % 3 == 0};
            ASSERT_EQ((*found)->encode(text, options), expected->encode(text, options)) << text;
        }
        EXPECT_TRUE((*found)->is_special(2));
    }
}

TEST(Unigram, WhatAFolderSaysAndWeDoNotDoIsRefusedByName) {
    Vocabulary v = vocabulary_of({{"▁", -3}, {"a", -2}});
    v.char_map = MapWriter(kEntries).bytes();
    const auto error_of = [&](const char* pointer, const Json& value) {
        Json json = folder_json(v, true);
        json[Json::json_pointer(pointer)] = value;
        const auto found = open_folder(json);
        return found.ok() ? "no error" : found.error().message;
    };
    EXPECT_THAT(error_of("/model/type", "Other"),
                HasSubstr("type \"Other\", expected \"BPE\", \"Unigram\" or \"WordPiece\""));
    EXPECT_THAT(error_of("/model/byte_fallback", true), HasSubstr("byte_fallback"));
    EXPECT_THAT(error_of("/model/unk_id", 77), HasSubstr("unk_id"));
    EXPECT_THAT(error_of("/model/vocab/3", {"x"}), HasSubstr("vocab[3]"));
    EXPECT_THAT(error_of("/model/vocab/3/1", "x"), HasSubstr("vocab[3]"));
    EXPECT_THAT(error_of("/normalizer/type", "NFKC"), HasSubstr("\"NFKC\" is not known"));
    EXPECT_THAT(error_of("/normalizer/precompiled_charsmap", "?"), HasSubstr("base64"));
    EXPECT_THAT(error_of("/normalizer/precompiled_charsmap", "AAAA"),
                HasSubstr("tokenizer.ggml.precompiled_charsmap"));
    EXPECT_THAT(error_of("/pre_tokenizer", {{"type", "WhitespaceSplit"}}), HasSubstr("Metaspace"));
    EXPECT_THAT(error_of("/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "_"}}),
                HasSubstr("\"Metaspace\" is not known"));
    EXPECT_THAT(error_of("/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", 3}}),
                HasSubstr("replacement"));
}

}  // namespace
}  // namespace helix::text::unigram_test
