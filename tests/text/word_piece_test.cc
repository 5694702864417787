// Word pieces: ids worked out by hand, a cut that tries every end of every piece, and
// tokenizer.json against the GGUF file of the same vocabulary.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "golden_vocabulary.h"
#include "model/gguf_writer.h"
#include "model/hf/hf_tokenizer.h"
#include "model/hf_folder.h"
#include "model/synth_vocabulary.h"
#include "model/temporary_folder.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/word_normaliser.h"

namespace helix::text::word_piece_test {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Tokens = std::vector<Token>;
using Texts = std::vector<std::string>;

constexpr Token kUnk = 1;
constexpr Token kCls = 2;
constexpr Token kSep = 3;
constexpr Token kMask = 4;
constexpr std::size_t kFirst = 5;  // that is no special token

// As BERT writes them; the numbers are ids.
const Texts kPieces = {
    /* 0 */ "[PAD]",   "[UNK]",    "[CLS]",    "[SEP]",  "[MASK]",
    /* 5 */ "the",     "un",       "##aff",    "##able", "want",
    /* 10 */ "##want", "##ed",     "runn",     "##ing",  ",",
    /* 15 */ "low",    "lowest",   "cafe",     "Café",   "café",
    /* 20 */ "a",      "##a",      "ß",        "##ß",    "語",
    /* 25 */ "中",     "!",        "'",        "s",      "##s",
    /* 30 */ "[",      "]",        "cls",      "i",      "i\u0307",
    /* 35 */ "\u1112", "##\u1161", "##\u11ab", "naive",  "##▁"};

// As GGUF files have them, from pieces as BERT writes them.
Vocabulary vocabulary_of(const Texts& pieces) {
    Vocabulary v;
    v.model = "bert";
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        const std::string& piece = pieces[i];
        if (i < kFirst) {
            v.tokens.push_back(piece);
        } else {
            v.tokens.push_back(piece.starts_with("##") ? piece.substr(2) : "▁" + piece);
        }
        v.kinds.push_back(i < kFirst ? TokenKind::control : TokenKind::normal);
    }
    v.bos = kCls;
    v.eos = kSep;
    v.unknown = kUnk;
    return v;
}

Tokens encoded(const Tokenizer& t, std::string_view text) {
    return t.encode(text, {.add_special = false});
}

TEST(WordPiece, TheLongestBeginningIsTakenThenTheLongestOfTheRest) {
    const auto t = make_tokenizer(vocabulary_of(kPieces));
    EXPECT_THAT(encoded(*t, "unaffable"), ElementsAre(6, 7, 8));
    EXPECT_THAT(encoded(*t, "lowest"), ElementsAre(16));
    EXPECT_THAT(encoded(*t, "low lowa"), ElementsAre(15, 15, 21));
    EXPECT_THAT(encoded(*t, "UNwant\u00e9d,running"), ElementsAre(6, 10, 11, 14, 12, 13));
    EXPECT_THAT(encoded(*t, ""), IsEmpty());
    EXPECT_THAT(encoded(*t, " \n "), IsEmpty());
}

TEST(WordPiece, AWordWithARestThatIsNoTokenIsOneUnknownToken) {
    const auto t = make_tokenizer(vocabulary_of(kPieces));
    EXPECT_THAT(encoded(*t, "unwantedx running"), ElementsAre(kUnk, 12, 13));
    // "lowe" is the beginning of a token and none itself; nothing goes back to "low".
    EXPECT_THAT(encoded(*t, "the lowe the"), ElementsAre(5, kUnk, 5));
    // What begins a word does not go on in one, and the other way round.
    EXPECT_THAT(encoded(*t, "thethe able"), ElementsAre(kUnk, kUnk));
}

TEST(WordPiece, AWordOfMoreCharactersThanTheMostIsUnknown) {
    const auto t = make_tokenizer(vocabulary_of(kPieces));
    const auto repeated = [](const std::string& text, std::size_t n) {
        std::string out;
        for (; n > 0; --n) out += text;
        return out;
    };
    Tokens expected(100, 21);
    expected[0] = 20;
    EXPECT_EQ(encoded(*t, repeated("a", 100)), expected);
    EXPECT_THAT(encoded(*t, repeated("a", 101) + " a"), ElementsAre(kUnk, 20));
    EXPECT_EQ(encoded(*t, repeated("a\u0301", 100)), expected);
    expected.assign(100, 23);
    expected[0] = 22;
    EXPECT_EQ(encoded(*t, repeated("ß", 100)), expected);
    EXPECT_THAT(encoded(*t, repeated("ß", 101)), ElementsAre(kUnk));

    Vocabulary v = vocabulary_of(kPieces);
    v.words.max_characters = 2;
    EXPECT_THAT(encoded(*make_tokenizer(v), "aa aaa"), ElementsAre(20, 21, kUnk));
}

TEST(WordPiece, CaseAndAccentsAreWithoutMeaningWhereTheRulesSaySo) {
    const auto t = make_tokenizer(vocabulary_of(kPieces));
    for (const char* text : {"cafe", "CAFE", "Café", "CAFE\u0301", "CAF\u00c9"})
        EXPECT_THAT(encoded(*t, text), ElementsAre(17)) << text;
    EXPECT_THAT(encoded(*t, "na\u00efve \u0130 \u1e9e"), ElementsAre(38, 33, 22));
    // Hangul falls into its letters.
    EXPECT_THAT(encoded(*t, "\ud55c"), ElementsAre(35, 36, 37));

    Vocabulary v = vocabulary_of(kPieces);
    v.words.strip_accents = false;
    const auto accents = make_tokenizer(v);
    EXPECT_THAT(encoded(*accents, "CAF\u00c9 \u0130"), ElementsAre(19, 34));
    EXPECT_THAT(encoded(*accents, "cafe\u0301"), ElementsAre(kUnk));

    v.words.lowercase = false;
    const auto cased = make_tokenizer(v);
    EXPECT_THAT(encoded(*cased, "Café café CAFÉ cafe The"), ElementsAre(18, 19, kUnk, 17, kUnk));
}

TEST(WordPiece, ChineseCharactersAndPunctuationAreWordsOfTheirOwn) {
    const auto t = make_tokenizer(vocabulary_of(kPieces));
    EXPECT_THAT(encoded(*t, "a語中a"), ElementsAre(20, 24, 25, 20));
    EXPECT_THAT(encoded(*t, "the,the!"), ElementsAre(5, 14, 5, 26));
    EXPECT_THAT(encoded(*t, "a's"), ElementsAre(20, 27, 28));
    // Of symbols only those of ASCII.
    EXPECT_THAT(encoded(*t, "the$the the\u3002the"), ElementsAre(5, kUnk, 5, 5, kUnk, 5));
    EXPECT_THAT(encoded(*t, "the\u20acthe"), ElementsAre(kUnk));
    // Kana are no Chinese characters: か with its mark is one word, which is unknown.
    EXPECT_THAT(encoded(*t, "語がか語"), ElementsAre(24, kUnk, 24));

    Vocabulary v = vocabulary_of(kPieces);
    v.words.chinese_apart = false;
    EXPECT_THAT(encoded(*make_tokenizer(v), "語 a語"), ElementsAre(24, kUnk));
}

TEST(WordPiece, ControlCharactersAreLeftOutAndSpacesOfAllKindsAreBetweenWords) {
    const auto t = make_tokenizer(vocabulary_of(kPieces));
    EXPECT_THAT(encoded(*t,
                        "t\x01h\u200b\ue000\u00ad\ufffd\xff\x7f"
                        "e"),
                ElementsAre(5));
    EXPECT_THAT(encoded(*t, std::string_view("t\0he", 4)), ElementsAre(5));
    EXPECT_THAT(encoded(*t, "the\vlow"), ElementsAre(kUnk));
    EXPECT_THAT(encoded(*t, "the\u0378"), ElementsAre(kUnk));  // belongs to no character
    EXPECT_THAT(encoded(*t, "a\ta\na\ra\u00a0a\u3000a\u2028a"), Tokens(7, 20));

    Vocabulary v = vocabulary_of(kPieces);
    v.words.clean = false;
    const auto raw = make_tokenizer(v);
    EXPECT_THAT(encoded(*raw, "a\va\u0085a t\x01he"), ElementsAre(20, 20, 20, kUnk));
}

TEST(WordPiece, MarksThatStayAreInTheOrderOfTheirClasses) {
    const WordRules rules;
    EXPECT_EQ(normalise_words("\u302f\u0301\U00016ff0", rules), U"\U00016ff0\u302f");
    EXPECT_EQ(normalise_words("\u302fA\U00016ff0", rules), U"\u302fa\U00016ff0");
    EXPECT_EQ(normalise_words("\u1ed8語", rules), U"o 語 ");
}

TEST(WordPiece, ClsAndSepAreAddedAndOtherSpecialTokensOnlyReadWhereAskedFor) {
    const auto t = make_tokenizer(vocabulary_of(kPieces));
    EXPECT_THAT(t->encode("the"), ElementsAre(kCls, 5, kSep));
    EXPECT_THAT(t->encode(""), ElementsAre(kCls, kSep));
    EXPECT_THAT(encoded(*t, "[CLS] the"), ElementsAre(30, 32, 31, 5));
    EXPECT_THAT(t->encode("the[MASK]the", {.add_special = false, .parse_special = true}),
                ElementsAre(5, kMask, 5));
    EXPECT_THAT(t->encode("[mask]", {.add_special = false, .parse_special = true}),
                ElementsAre(30, kUnk, 31));
    for (const Token special : {0, 1, 2, 3, 4}) EXPECT_TRUE(t->is_special(special)) << special;
    EXPECT_FALSE(t->is_special(5));
    EXPECT_EQ(t->vocabulary().kinds[kUnk], TokenKind::unknown);
}

TEST(WordPiece, DecodingJoinsPiecesAndPutsSpacesBetweenWords) {
    Vocabulary v = vocabulary_of(kPieces);
    const auto t = make_tokenizer(v);
    const Tokens ids = t->encode("The caf\u00e9, unaffable!");
    EXPECT_EQ(decode(*t, ids), "the cafe, unaffable!");
    EXPECT_EQ(decode(*t, ids, {.skip_special_tokens = false, .starts_text = true}),
              "[CLS] the cafe, unaffable![SEP]");
    EXPECT_EQ(decode(*t, encoded(*t, "a's the")), "a ' s the");
    EXPECT_EQ(decode(*t, Tokens{13, 5}), "ing the");
    EXPECT_EQ(decode(*t, Tokens{5}, {.starts_text = false}), " the");
    EXPECT_EQ(decode(*t, Tokens{26, 20, 39}), "! a▁");
    Detokenizer streamed(t, {.starts_text = true});
    Texts texts;
    for (const Token id : ids) texts.push_back(streamed.push(id));
    EXPECT_THAT(texts, ElementsAre("", "the", " cafe", ",", " un", "aff", "able", "!", ""));
    v.words.joins_punctuation = false;
    EXPECT_EQ(decode(*make_tokenizer(v), ids), "the cafe , unaffable !");
}

TEST(WordPiece, WhatIsMissingIsNamed) {
    const auto error_of = [](Vocabulary v) {
        const auto made = Tokenizer::create(std::move(v));
        return made.ok() ? "no error" : made.error().message;
    };
    Vocabulary v = vocabulary_of(kPieces);
    v.bos = v.eos = v.unknown = std::nullopt;
    EXPECT_EQ(error_of(v), "no error");  // there are tokens of these names
    EXPECT_THAT(make_tokenizer(v)->encode("x"), ElementsAre(kCls, kUnk, kSep));
    v.tokens[kUnk] = "[unk]";
    EXPECT_THAT(error_of(v), HasSubstr("tokenizer.ggml.unknown_token_id: missing"));
    v.unknown = kUnk;
    v.tokens[kSep] = "[sep]";
    EXPECT_THAT(error_of(v), HasSubstr("tokenizer.ggml.seperator_token_id: missing"));
    v.add_eos = false;
    EXPECT_THAT(make_tokenizer(v)->encode("the"), ElementsAre(kCls, 5));
    v.tokens[kCls] = "[cls]";
    EXPECT_THAT(error_of(v), HasSubstr("tokenizer.ggml.cls_token_id: missing"));
    v = vocabulary_of({kPieces.begin(), kPieces.begin() + kFirst});
    EXPECT_THAT(error_of(v), HasSubstr("tokenizer.ggml.tokens: none begins a word"));
    v.model = "wordpiece";
    EXPECT_THAT(error_of(v), HasSubstr("known are llama, gpt2, gemma4, t5, bert"));
}

// A character as it is written, what it is, and what it becomes in uncased models, in such that
// keep accents, and in cased ones.
enum class Is { letter, space, nothing, punctuation, chinese };
struct Symbol {
    std::string written;
    Is is;
    std::string uncased, accented, cased;
};
const std::vector<Symbol> kSymbols = {
    {"a", Is::letter, "a", "a", "a"},
    {"a", Is::letter, "a", "a", "a"},
    {"b", Is::letter, "b", "b", "b"},
    {"B", Is::letter, "b", "b", "B"},
    {"\u00e9", Is::letter, "e", "\u00e9", "\u00e9"},
    {"\u00c9", Is::letter, "e", "\u00e9", "\u00c9"},
    {"\u0301", Is::letter, "", "\u0301", "\u0301"},
    {"\u0130", Is::letter, "i", "i\u0307", "\u0130"},
    {"\u03a3", Is::letter, "\u03c3", "\u03c3", "\u03a3"},
    {"\u00df", Is::letter, "\u00df", "\u00df", "\u00df"},
    {"\ud55c", Is::letter, "\u1112\u1161\u11ab", "\ud55c", "\ud55c"},
    {"\u20ac", Is::letter, "\u20ac", "\u20ac", "\u20ac"},
    {"\U0001f600", Is::letter, "\U0001f600", "\U0001f600", "\U0001f600"},
    {" ", Is::space, "", "", ""},
    {"\n", Is::space, "", "", ""},
    {"\u00a0", Is::space, "", "", ""},
    {"\u3000", Is::space, "", "", ""},
    {"\x02", Is::nothing, "", "", ""},
    {"\u200d", Is::nothing, "", "", ""},
    {"\ufffd", Is::nothing, "", "", ""},
    {"\xfe", Is::nothing, "", "", ""},
    {",", Is::punctuation, ",", ",", ","},
    {"+", Is::punctuation, "+", "+", "+"},
    {"\u00bf", Is::punctuation, "\u00bf", "\u00bf", "\u00bf"},
    {"\u037e", Is::punctuation, ";", "\u037e", "\u037e"},
    {"\u8a9e", Is::chinese, "\u8a9e", "\u8a9e", "\u8a9e"},
    {"\U00020000", Is::chinese, "\U00020000", "\U00020000", "\U00020000"}};

const std::string& becomes(const Symbol& symbol, const WordRules& rules) {
    return rules.strip_accents ? symbol.uncased : rules.lowercase ? symbol.accented : symbol.cased;
}

Texts characters_in(const std::string& text) {
    Texts out;
    for (const char c : text) {
        if ((static_cast<unsigned char>(c) & 0xc0U) != 0x80) out.emplace_back();
        out.back() += c;
    }
    return out;
}

// By trying every end of every piece, longest first, among all tokens.
Tokens cut(const Texts& word, const Texts& pieces, const WordRules& rules) {
    Tokens out;
    if (word.size() > rules.max_characters) return {kUnk};
    for (std::size_t begin = 0; begin < word.size();) {
        std::size_t best = begin;
        Token token = kUnk;
        for (std::size_t end = begin + 1; end <= word.size(); ++end) {
            std::string piece = begin > 0 ? "##" : "";
            for (std::size_t i = begin; i < end; ++i) piece += word[i];
            for (std::size_t id = kFirst; id < pieces.size(); ++id) {
                if (pieces[id] != piece) continue;
                best = end;
                token = static_cast<Token>(id);
            }
        }
        if (best == begin) return {kUnk};
        out.push_back(token);
        begin = best;
    }
    return out;
}

Tokens reference(const std::vector<const Symbol*>& text, const Texts& pieces,
                 const WordRules& rules) {
    std::vector<Texts> words(1);
    for (const Symbol* symbol : text) {
        const bool alone = symbol->is == Is::punctuation || symbol->is == Is::chinese;
        if (alone || symbol->is == Is::space) words.emplace_back();
        for (const std::string& c : characters_in(becomes(*symbol, rules)))
            words.back().push_back(c);
        if (alone) words.emplace_back();
    }
    Tokens out;
    for (const Texts& word : words) {
        const Tokens tokens = cut(word, pieces, rules);
        out.insert(out.end(), tokens.begin(), tokens.end());
    }
    return out;
}

WordRules random_rules(base::Random& random) {
    WordRules rules;
    const std::uint64_t kind = random.below(4);
    rules.strip_accents = kind < 2;
    rules.lowercase = kind < 3;
    if (random.chance(0.5)) rules.max_characters = 1 + random.below(7);
    return rules;
}

// Pieces of what symbols become; most words can be cut into them.
Texts random_pieces(base::Random& random, const WordRules& rules) {
    Texts out(kPieces.begin(), kPieces.begin() + kFirst);
    std::set<std::string> seen;
    for (int i = 0; i < 60; ++i) {
        std::string piece = random.chance(0.6) ? "##" : "";
        for (std::uint64_t n = 1 + random.below(3); n > 0; --n) {
            const Texts some =
                characters_in(becomes(kSymbols[random.below(kSymbols.size())], rules));
            if (!some.empty()) piece += some[random.below(some.size())];
        }
        if (piece.empty() || piece == "##" || !seen.insert(piece).second) continue;
        out.push_back(piece);
    }
    if (out.size() == kFirst) out.emplace_back("a");
    return out;
}

TEST(WordPiece, RandomTextsAreCutAsByTryingEveryPiece) {
    base::Random random(23);
    std::size_t known = 0;
    for (int trial = 0; trial < 1500; ++trial) {
        const WordRules rules = random_rules(random);
        const Texts pieces = random_pieces(random, rules);
        Vocabulary v = vocabulary_of(pieces);
        v.words = rules;
        const auto t = make_tokenizer(v);
        std::vector<const Symbol*> symbols;
        std::string text;
        for (std::uint64_t n = random.below(16); n > 0; --n) {
            symbols.push_back(&kSymbols[random.below(kSymbols.size())]);
            text += symbols.back()->written;
        }
        const Tokens expected = reference(symbols, pieces, rules);
        ASSERT_EQ(encoded(*t, text), expected)
            << "trial " << trial << ": " << testing::PrintToString(text);
        for (const Token token : expected) known += token != kUnk ? 1 : 0;
    }
    EXPECT_GT(known, 2000U);
}

base::Result<std::shared_ptr<const Tokenizer>> tokenizer_of(const model::GgufBuilder& builder) {
    TRY(const auto header, model::GgufFile::from_header(builder.header()));
    TRY(auto vocabulary, read_vocabulary(*header));
    return Tokenizer::create(std::move(vocabulary));
}

model::GgufBuilder builder_of(const Vocabulary& v) {
    model::GgufBuilder builder;
    std::vector<std::int32_t> types;
    for (const TokenKind kind : v.kinds) types.push_back(static_cast<std::int32_t>(kind));
    builder.set("tokenizer.ggml.model", v.model);
    builder.set("tokenizer.ggml.tokens", v.tokens);
    builder.set("tokenizer.ggml.token_type", types);
    builder.set("tokenizer.ggml.unknown_token_id", std::uint32_t{1});
    return builder;
}

TEST(WordPiece, AFilesClsAndSepAreAddedWhateverItSaysOfOtherTokens) {
    const Vocabulary v = vocabulary_of(kPieces);
    {
        model::GgufBuilder builder = builder_of(v);
        builder.set("tokenizer.ggml.cls_token_id", std::uint32_t{4});
        builder.set("tokenizer.ggml.seperator_token_id", std::uint32_t{3});
        builder.set("tokenizer.ggml.bos_token_id", std::uint32_t{0});
        builder.set("tokenizer.ggml.eos_token_id", std::uint32_t{0});
        builder.set("tokenizer.ggml.add_bos_token", false);
        builder.set("tokenizer.ggml.add_eos_token", false);
        EXPECT_THAT((*tokenizer_of(builder))->encode("The"), ElementsAre(4, 5, 3));
    }
    {
        model::GgufBuilder builder = builder_of(v);
        builder.set("tokenizer.ggml.bos_token_id", std::uint32_t{2});
        builder.set("tokenizer.ggml.eos_token_id", std::uint32_t{3});
        builder.set("tokenizer.ggml.seperator_token_id", std::uint32_t{3});
        builder.set("tokenizer.ggml.add_eos_token", false);
        builder.set("tokenizer.ggml.normalizer.lowercase", false);
        EXPECT_THAT((*tokenizer_of(builder))->encode("Café"), ElementsAre(2, 18));
    }
    {
        model::GgufBuilder builder = builder_of(v);
        builder.set("tokenizer.ggml.normalizer.strip_accents", false);
        EXPECT_THAT((*tokenizer_of(builder))->encode("Café"), ElementsAre(2, 19, 3));
    }
    model::GgufBuilder builder = builder_of(v);
    builder.set("tokenizer.ggml.cls_token_id", std::uint32_t{400});
    EXPECT_THAT(tokenizer_of(builder).error().message,
                HasSubstr("tokenizer.ggml.cls_token_id: token id 400 is outside"));
    builder = builder_of(v);
    builder.set("tokenizer.helix.max_input_chars_per_word", std::uint32_t{0});
    EXPECT_THAT(tokenizer_of(builder).error().message, HasSubstr("0, expected at least 1"));
}

TEST(WordPiece, EveryAsciiTextHasTokensOfTheMadeUpVocabulary) {
    model::GgufBuilder builder;
    model::set_synth_word_pieces(model::make_synth_word_pieces(1000, 4), builder);
    const auto made = tokenizer_of(builder);
    ASSERT_TRUE(made.ok()) << made.error().message;
    const Tokenizer& t = **made;
    EXPECT_EQ(t.vocab_size(), 1000);
    EXPECT_THAT(t.encode("Hello"), ElementsAre(2, id_of(t, "▁hello"), 3));
    EXPECT_EQ(decode(t, t.encode("The words, and then!")), "the words, and then!");
    base::Random random(2);
    for (int trial = 0; trial < 200; ++trial) {
        std::string text;
        for (std::uint64_t n = random.below(30); n > 0; --n)
            text += static_cast<char>(' ' + static_cast<char>(random.below(95)));
        EXPECT_THAT(encoded(t, text), testing::Each(testing::Gt(4))) << text;
    }
}

using model::test_support::Json;

Json special_piece(const char* name) {
    return {{"SpecialToken", {{"id", name}, {"type_id", 0}}}};
}

// The tokenizer.json of an uncased model.
Json folder_json() {
    Json vocab = Json::object();
    Json added = Json::array();
    for (std::size_t i = 0; i < kPieces.size(); ++i) {
        vocab[kPieces[i]] = i;
        if (i < kFirst) added.push_back({{"id", i}, {"content", kPieces[i]}, {"special", true}});
    }
    Json out;
    out["model"] = {{"type", "WordPiece"},
                    {"unk_token", "[UNK]"},
                    {"continuing_subword_prefix", "##"},
                    {"max_input_chars_per_word", 100},
                    {"vocab", vocab}};
    out["added_tokens"] = added;
    out["normalizer"] = {{"type", "BertNormalizer"},
                         {"clean_text", true},
                         {"handle_chinese_chars", true},
                         {"strip_accents", nullptr},
                         {"lowercase", true}};
    out["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
    out["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single",
         Json::array({special_piece("[CLS]"), Json({{"Sequence", {{"id", "A"}, {"type_id", 0}}}}),
                      special_piece("[SEP]")})}};
    out["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
    return out;
}

base::Result<std::shared_ptr<const Tokenizer>> open_folder(const Json& tokenizer) {
    const model::test_support::TemporaryFolder files;
    const std::string folder = files.file("");
    model::test_support::write_file(folder + "/tokenizer.json", tokenizer.dump());
    model::test_support::write_file(folder + "/tokenizer_config.json",
                                    Json({{"cls_token", "[CLS]"},
                                          {"sep_token", "[SEP]"},
                                          {"pad_token", "[PAD]"},
                                          {"mask_token", {{"content", "[MASK]"}}}})
                                        .dump());
    model::GgufBuilder builder;
    model::HfConfig config;
    config.vocab = 100;
    TRY_VOID(model::read_hf_tokenizer(folder, config, builder));
    return tokenizer_of(builder);
}

TEST(WordPiece, AFolderGivesTheTokensOfTheFile) {
    Json processed = folder_json();
    processed["post_processor"] = {
        {"type", "BertProcessing"}, {"sep", {"[SEP]", 3}}, {"cls", {"[CLS]", 2}}};
    const auto expected = make_tokenizer(vocabulary_of(kPieces));
    for (const Json& json : {folder_json(), processed}) {
        const auto found = open_folder(json);
        ASSERT_TRUE(found.ok()) << found.error().message;
        EXPECT_EQ((*found)->vocabulary().tokens, expected->vocabulary().tokens);
        EXPECT_EQ((*found)->vocabulary().kinds, expected->vocabulary().kinds);
        base::Random random(9);
        const Texts parts = {" ",   "the", "Un",  "affable", "WANT", "ed",     ",",    "語",
                             "É",   "ß",   "!",   "[CLS]",   "a",    "[MASK]", "\xfd", "  ",
                             "ing", "▁",   "low", "lowest",  "'s",   "İ"};
        for (int trial = 0; trial < 300; ++trial) {
            std::string text;
            for (std::uint64_t n = random.below(12); n > 0; --n)
                text += parts[random.below(parts.size())];
            const EncodeOptions options{.add_special = trial % 2 == 0,
                                        .parse_special = trial % 3 == 0};
            const Tokens ids = expected->encode(text, options);
            ASSERT_EQ((*found)->encode(text, options), ids) << text;
            ASSERT_EQ(decode(**found, ids), decode(*expected, ids)) << text;
        }
    }
}

TEST(WordPiece, AFoldersRulesAreKept) {
    const auto tokens_with = [](const char* pointer, const Json& value, std::string_view text) {
        Json json = folder_json();
        json[Json::json_pointer(pointer)] = value;
        const auto found = open_folder(json);
        EXPECT_TRUE(found.ok()) << (found.ok() ? "" : found.error().message);
        return found.ok() ? (*found)->encode(text) : Tokens();
    };
    // Without lowercase accents stay, too.
    EXPECT_THAT(tokens_with("/normalizer/lowercase", false, "Café The"),
                ElementsAre(kCls, 18, kUnk, kSep));
    EXPECT_THAT(tokens_with("/normalizer/strip_accents", false, "CAFÉ"),
                ElementsAre(kCls, 19, kSep));
    EXPECT_THAT(tokens_with("/normalizer/clean_text", false, "t\x01he"),
                ElementsAre(kCls, kUnk, kSep));
    EXPECT_THAT(tokens_with("/normalizer/handle_chinese_chars", false, "a語"),
                ElementsAre(kCls, kUnk, kSep));
    EXPECT_THAT(tokens_with("/normalizer", nullptr, "The a"), ElementsAre(kCls, kUnk, 20, kSep));
    EXPECT_THAT(tokens_with("/model/max_input_chars_per_word", 2, "aaa aa"),
                ElementsAre(kCls, kUnk, 20, 21, kSep));
    EXPECT_THAT(tokens_with("/post_processor", nullptr, "the"), ElementsAre(5));
    Json single = folder_json()["post_processor"]["single"];
    single.erase(2);
    EXPECT_THAT(tokens_with("/post_processor/single", single, "the"), ElementsAre(kCls, 5));
    Json apart = folder_json();
    apart["decoder"]["cleanup"] = false;
    EXPECT_EQ(decode(**open_folder(apart), Tokens{5, 14, 5}), "the , the");
    // A token that is not special is found in the text before it is cut.
    Json tool = folder_json();
    tool["added_tokens"].push_back({{"id", 60}, {"content", "<Tool>"}, {"special", false}});
    EXPECT_THAT((*open_folder(tool))->encode("a<Tool>a"), ElementsAre(kCls, 20, 60, 20, kSep));
}

TEST(WordPiece, WhatAFolderSaysAndWeDoNotDoIsRefusedByName) {
    const auto error_of = [](const char* pointer, const Json& value) {
        Json json = folder_json();
        json[Json::json_pointer(pointer)] = value;
        const auto found = open_folder(json);
        return found.ok() ? "no error" : found.error().message;
    };
    EXPECT_THAT(error_of("/model/type", "WordLevel"),
                HasSubstr("type \"WordLevel\", expected \"BPE\", \"Unigram\" or \"WordPiece\""));
    EXPECT_THAT(error_of("/model/unk_token", "<unk>"), HasSubstr("\"<unk>\" is not a token"));
    EXPECT_THAT(error_of("/model/max_input_chars_per_word", 0), HasSubstr("at least 1"));
    EXPECT_THAT(error_of("/model/continuing_subword_prefix", ""), HasSubstr("not empty"));
    EXPECT_THAT(error_of("/model/vocab/##▁a", 40), HasSubstr("token \"##▁a\""));
    EXPECT_THAT(error_of("/normalizer/type", "NFC"), HasSubstr("\"NFC\" is not known"));
    EXPECT_THAT(error_of("/normalizer/lowercase", 3), HasSubstr("normalizer.lowercase"));
    EXPECT_THAT(error_of("/pre_tokenizer/type", "Whitespace"),
                HasSubstr("known is BertPreTokenizer"));
    EXPECT_THAT(error_of("/post_processor/type", "RobertaProcessing"),
                HasSubstr("known are TemplateProcessing and BertProcessing"));
    EXPECT_THAT(error_of("/post_processor/single/1", special_piece("[MASK]")),
                HasSubstr("\"[MASK]\" beside \"[CLS]\""));
    EXPECT_THAT(error_of("/post_processor/single/0", special_piece("[BEGIN]")),
                HasSubstr("\"[BEGIN]\", which is not a token"));
    EXPECT_THAT(error_of("/post_processor/single", Json::array()), HasSubstr("Sequence"));
    EXPECT_THAT(error_of("/decoder/type", "BPEDecoder"), HasSubstr("known is WordPiece"));
    EXPECT_THAT(error_of("/decoder/prefix", "@@"), HasSubstr("prefix \"@@\", expected \"##\""));
}

// A published vocabulary and its cases, without [CLS] and [SEP].
TEST(WordPiece, APublishedVocabularyEncodesEveryCase) {
    const std::string base = std::string(HELIX_DATA_DIR) + "/vocab/ggml-vocab-bert-bge.gguf";
    if (!std::filesystem::exists(base)) GTEST_SKIP() << "no " << base;
    const auto file = model::GgufFile::open(base);
    ASSERT_TRUE(file.ok()) << file.error().message;
    const auto t = make_tokenizer(*read_vocabulary(**file));
    std::ostringstream all;
    all << std::ifstream(base + ".inp", std::ios::binary).rdbuf();
    const std::string separator = "\n__ggml_vocab_test__\n";
    const std::string texts = all.str();
    std::ifstream expected(base + ".out");
    std::size_t n = 0;
    std::string line;
    for (std::size_t at = 0; at < texts.size() && std::getline(expected, line); ++n) {
        const std::size_t end = std::min(texts.find(separator, at), texts.size());
        std::istringstream numbers(line);
        Tokens ids;
        for (Token id = 0; numbers >> id;) ids.push_back(id);
        const std::string text = texts.substr(at, end - at);
        EXPECT_EQ(encoded(*t, text), ids) << "case " << n << ": " << testing::PrintToString(text);
        at = end + separator.size();
    }
    EXPECT_GE(n, 40U);
}

}  // namespace
}  // namespace helix::text::word_piece_test
