// A tokenizer.json gives the tokens that the GGUF file of the same vocabulary gives.

#include <algorithm>
#include <set>
#include <span>

#include <gtest/gtest.h>

#include "base/effort.h"
#include "base/random.h"
#include "golden_vocabulary.h"
#include "model/gguf_writer.h"
#include "model/hf/deepseek_letters.h"
#include "model/hf/hf_tokenizer.h"
#include "model/hf_folder.h"
#include "model/temporary_folder.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"

namespace helix::text::hf_tokenizer_test {
namespace {

using model::test_support::Json;

std::string random_text(base::Random& random) {
    static const char* const kPieces[] = {
        " ",     "  ",    "\n",     "\r\n",   "\t",       "the",   "The", " of", "'s",  "'LL",
        "12345", "3.14",  "don't",  "étude",  "中文",     "日本",  "😀",   "!!!", "...", "_",
        "hello", "World", "<s>",    "▁",      "\xff",     "a",     "zz",  "Ω",   "x=y", "()",
        "ing",   "tion",  "    if", "return", "\xc2\xa0", "naïve", "ÀÉÎ", "0",   "00",  "\n\n\n"};
    std::string text;
    for (std::uint64_t n = random.below(24); n > 0; --n) {
        text += kPieces[random.below(std::size(kPieces))];
        if (random.chance(0.2)) text += static_cast<char>('a' + random.below(26));
    }
    return text;
}

// Only the tokenizer's files of a folder, from the vocabulary of a GGUF file.
class VocabularyFolder {
  public:
    explicit VocabularyFolder(const Vocabulary& v) : folder_(file_.file("")) {
        const bool spm = v.model == "llama";
        Json vocab = Json::object();
        Json added = Json::array();
        for (std::size_t i = 0; i < v.tokens.size(); ++i) {
            vocab[v.tokens[i]] = i;
            const TokenKind kind = v.kinds.at(i);
            if (kind == TokenKind::normal || kind == TokenKind::byte) continue;
            added.push_back({{"id", i},
                             {"content", v.tokens[i]},
                             {"special", kind != TokenKind::user_defined}});
        }
        tokenizer["model"] = {{"type", "BPE"}, {"vocab", vocab}, {"byte_fallback", spm}};
        tokenizer["added_tokens"] = added;
        if (spm) {
            tokenizer["model"]["unk_token"] = v.tokens.at(0);
            tokenizer["model"]["merges"] = merges_of(v);
            tokenizer["normalizer"] = {{"type", "Prepend"}};
        } else {
            Json pairs = Json::array();
            for (const std::string& merge : v.merges) {
                const std::size_t space = merge.find(' ', 1);
                pairs.push_back({merge.substr(0, space), merge.substr(space + 1)});
            }
            tokenizer["model"]["merges"] = pairs;
        }
    }

    base::Result<std::shared_ptr<const Tokenizer>> open(std::int32_t vocab) {
        model::test_support::write_file(folder_ + "/tokenizer.json", tokenizer.dump());
        model::test_support::write_file(folder_ + "/tokenizer_config.json", settings.dump());
        model::test_support::write_file(folder_ + "/generation_config.json", generation.dump());
        model::GgufBuilder builder;
        model::HfConfig config;
        config.vocab = vocab;
        TRY_VOID(model::read_hf_tokenizer(folder_, config, builder));
        TRY(const auto header, model::GgufFile::from_header(builder.header()));
        TRY(auto vocabulary, read_vocabulary(*header));
        return Tokenizer::create(std::move(vocabulary));
    }

    Json tokenizer = Json::object();
    Json settings = Json::object();
    Json generation = Json::object();

  private:
    static Json merges_of(const Vocabulary& v) {
        std::set<std::string> pieces;
        for (std::size_t i = 0; i < v.tokens.size(); ++i) {
            if (v.kinds[i] == TokenKind::normal) pieces.insert(v.tokens[i]);
        }
        std::vector<std::pair<float, std::string>> merges;
        for (std::size_t i = 0; i < v.tokens.size(); ++i) {
            if (v.kinds[i] != TokenKind::normal) continue;
            for (std::size_t cut = 1; cut < v.tokens[i].size(); ++cut) {
                const std::string left = v.tokens[i].substr(0, cut);
                const std::string right = v.tokens[i].substr(cut);
                if (pieces.contains(left) && pieces.contains(right))
                    merges.emplace_back(v.scores[i], left + " " + right);
            }
        }
        std::stable_sort(merges.begin(), merges.end(),
                         [](const auto& a, const auto& b) { return a.first > b.first; });
        Json list = Json::array();
        for (const auto& [score, merge] : merges) list.push_back(merge);
        return list;
    }

    model::test_support::TemporaryFolder file_;
    std::string folder_;
};

void expect_same_tokens(const Tokenizer& expected, const Tokenizer& found) {
    base::Random random(71);
    for (int trial = 0; trial < 400; ++trial) {
        const std::string text = random_text(random);
        const EncodeOptions options{.add_special = trial % 2 == 0, .parse_special = trial % 3 == 0};
        ASSERT_EQ(found.encode(text, options), expected.encode(text, options)) << text;
    }
    ASSERT_EQ(found.vocab_size(), expected.vocab_size());
    for (Token t = 0; t < found.vocab_size(); ++t) {
        ASSERT_EQ(found.token_bytes(t), expected.token_bytes(t)) << t;
        ASSERT_EQ(found.is_special(t), expected.is_special(t)) << t;
    }
}

Json split(const char* regex) {
    return {{"type", "Sequence"},
            {"pretokenizers",
             {{{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}},
              {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
}

using model::test_support::kLlama3Split;
// That of gpt-oss.
using model::test_support::kO200kSplit;
using model::test_support::kQwen2Split;

// Of several steps; "Digits" is the step of that name.
Json splits(const std::vector<std::string>& steps) {
    Json list = Json::array();
    for (const std::string& step : steps) {
        if (step == "Digits") {
            list.push_back({{"type", "Digits"}, {"individual_digits", true}});
        } else {
            list.push_back({{"type", "Split"},
                            {"pattern", {{"Regex", step}}},
                            {"behavior", "Isolated"},
                            {"invert", false}});
        }
    }
    list.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
    return {{"type", "Sequence"}, {"pretokenizers", list}};
}

constexpr const char* kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
    R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kKimi =
    R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kEastern = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+";
// Published files have line ends themselves in these patterns.
const std::vector<std::string> kDeepSeekLlm = {
    "[\r\n]",
    R"(\s?[)" HELIX_DEEPSEEK_LETTERS "]+",
    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
    R"(\s+$)",
    kEastern,
    "Digits"};
const std::vector<std::string> kDeepSeekCoder = {"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kEastern,
                                                 "Digits"};
const std::vector<std::string> kDeepSeekV3 = {
    R"(\p{N}{1,3})", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)"
    "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+"
    R"(|\s+(?!\S)|\s+)"};

TEST(HfTokenizer, SentencePieceVocabulariesGiveTheSameTokens) {
    for (const std::string& path :
         {std::string(HELIX_SOURCE_DIR) + "/models/helix-demo.gguf",
          std::string(HELIX_DATA_DIR) + "/vocab/ggml-vocab-llama-spm.gguf"}) {
        const auto file = model::GgufFile::open(path);
        if (!file.ok()) GTEST_SKIP() << file.error().message;
        const auto vocabulary = *read_vocabulary(**file);
        VocabularyFolder folder(vocabulary);
        folder.settings = {
            {"bos_token", "<s>"}, {"eos_token", {{"content", "</s>"}}}, {"add_bos_token", true}};
        const auto expected = *Tokenizer::create(vocabulary);
        const auto found = folder.open(expected->vocab_size());
        ASSERT_TRUE(found.ok()) << found.error().message;
        expect_same_tokens(*expected, **found);
        EXPECT_TRUE((*found)->is_end_of_generation(2));
    }
}

Json byte_level(bool words) {
    return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", words}};
}

void expect_same_tokens_with(Vocabulary vocabulary, const char* pre, const Json& pre_tokenizer,
                             const char* bos) {
    vocabulary.pre = pre;
    vocabulary.add_bos = false;
    VocabularyFolder folder(vocabulary);
    folder.tokenizer["pre_tokenizer"] = pre_tokenizer;
    folder.tokenizer["model"]["ignore_merges"] = PreTokenizer::create(pre)->whole_words_first();
    folder.settings = {{"bos_token", bos}, {"eos_token", bos}};
    const auto expected = *Tokenizer::create(vocabulary);
    const auto found = folder.open(60000);
    ASSERT_TRUE(found.ok()) << pre << ": " << found.error().message;
    EXPECT_EQ((*found)->vocabulary().pre, pre);
    expect_same_tokens(*expected, **found);
}

TEST(HfTokenizer, ByteLevelVocabulariesGiveTheSameTokens) {
    const std::string path = std::string(HELIX_DATA_DIR) + "/vocab/ggml-vocab-gpt-2.gguf";
    const auto file = model::GgufFile::open(path);
    if (!file.ok()) GTEST_SKIP() << file.error().message;
    const std::pair<const char*, Json> pre[] = {
        {"gpt-2", byte_level(true)}, {"gpt-4o", split(kO200kSplit)}, {"qwen2", split(kQwen2Split)}};
    for (const auto& [name, json] : std::span(pre).first(kSanitized ? 1 : std::size(pre))) {
        expect_same_tokens_with(*read_vocabulary(**file), name, json, "<|endoftext|>");
    }
}

TEST(HfTokenizer, SplitsHaveTheNamesOfGgufFiles) {
    const Json digits = {{"type", "Digits"}, {"individual_digits", true}};
    const std::pair<const char*, Json> pre[] = {
        {"starcoder",
         {{"type", "Sequence"}, {"pretokenizers", Json::array({digits, byte_level(true)})}}},
        {"llama-bpe", split(kLlama3Split)},
        {"dbrx", split(kLlama3Split)},
        {"qwen35", split(kQwen35)},
        {"tekken", split(kTekken)},
        {"kimi-k2", split(kKimi)},
        {"deepseek-llm", splits(kDeepSeekLlm)},
        {"deepseek-coder", splits(kDeepSeekCoder)},
        {"deepseek-v3", splits(kDeepSeekV3)}};
    for (const auto& [name, json] : pre) {
        expect_same_tokens_with(testing_support::byte_vocabulary(), name, json,
                                "<|begin_of_text|>");
    }
}

// Qwen's and ModernBERT's files ask for form C.
TEST(HfTokenizer, TextsAreBroughtIntoFormCWhereTheFolderSaysSo) {
    const auto tokens_of = [](const Json& normalizer, const char* text) {
        VocabularyFolder folder(testing_support::byte_vocabulary());
        folder.tokenizer["pre_tokenizer"] = split(kQwen2Split);
        folder.tokenizer["normalizer"] = normalizer;
        folder.settings = {{"bos_token", "<|begin_of_text|>"}, {"eos_token", "<|eot_id|>"}};
        const auto tokenizer = folder.open(60000);
        EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
        return (*tokenizer)->encode(text, {.add_special = false, .parse_special = true});
    };
    const Json nfc = {{"type", "NFC"}};
    const Json among_others = {{"type", "Sequence"}, {"normalizers", Json::array({nfc})}};
    const char* apart = "e\u0301tude<|eot_id|>u\u0308ber";
    const char* together = "\u00e9tude<|eot_id|>\u00fcber";
    EXPECT_EQ(tokens_of(nfc, apart), tokens_of(nullptr, together));
    EXPECT_EQ(tokens_of(among_others, apart), tokens_of(nullptr, together));
    EXPECT_NE(tokens_of(nullptr, apart), tokens_of(nullptr, together));
    // A special token parts what is beside it.
    EXPECT_EQ(tokens_of(nfc, "e<|eot_id|>\u0301"), tokens_of(nullptr, "e<|eot_id|>\u0301"));
}

TEST(HfTokenizer, OtherNormalizersOfBpeAreRefusedByName) {
    for (const char* type : {"NFKC", "NFD", "Lowercase", "StripAccents"}) {
        VocabularyFolder folder(testing_support::byte_vocabulary());
        folder.tokenizer["pre_tokenizer"] = split(kQwen2Split);
        folder.tokenizer["normalizer"] = {{"type", type}};
        const auto tokenizer = folder.open(60000);
        ASSERT_FALSE(tokenizer.ok()) << type;
        EXPECT_NE(tokenizer.error().message.find(type), std::string::npos)
            << tokenizer.error().message;
        EXPECT_NE(tokenizer.error().message.find("normalizer"), std::string::npos);
    }
}

// A word that no merges make is a token of its own only where the file asks for that.
TEST(HfTokenizer, WordsThatAreTokensAreTakenWholeWhereMergesAreIgnored) {
    Vocabulary v;
    v.model = "gpt2";
    for (const char* text : {"a", "b", "c", "ab", "abc"}) {
        v.tokens.emplace_back(text);
        v.kinds.push_back(TokenKind::normal);
    }
    v.merges = {"a b"};
    VocabularyFolder folder(v);
    const auto tokens = [&] { return (*folder.open(5))->encode("abc", {.add_special = false}); };
    folder.tokenizer["pre_tokenizer"] = split(kLlama3Split);
    EXPECT_EQ(tokens(), (std::vector<Token>{3, 2}));
    folder.tokenizer["model"]["ignore_merges"] = false;
    EXPECT_EQ(tokens(), (std::vector<Token>{3, 2}));
    folder.tokenizer["model"]["ignore_merges"] = true;
    EXPECT_EQ(tokens(), std::vector<Token>{4});
    for (const char* pattern : {kQwen2Split, kO200kSplit}) {
        folder.tokenizer["pre_tokenizer"] = split(pattern);
        EXPECT_EQ(tokens(), std::vector<Token>{4});
    }
    folder.tokenizer["model"]["ignore_merges"] = false;
    for (const char* pattern : {kQwen2Split, kO200kSplit, kTekken}) {
        folder.tokenizer["pre_tokenizer"] = split(pattern);
        EXPECT_EQ(tokens(), (std::vector<Token>{3, 2}));
    }
}

TEST(HfTokenizer, AnEmptySplitIsRefusedByName) {
    VocabularyFolder folder(testing_support::byte_vocabulary());
    folder.tokenizer["pre_tokenizer"] = splits({kQwen2Split, ""});
    const auto refused = folder.open(300);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("a pattern that is not empty"), std::string::npos)
        << refused.error().message;
}

TEST(HfTokenizer, SpecialTokensComeFromTheOtherFiles) {
    const auto file =
        model::GgufFile::open(std::string(HELIX_SOURCE_DIR) + "/models/helix-demo.gguf");
    ASSERT_TRUE(file.ok()) << file.error().message;
    const auto vocabulary = *read_vocabulary(**file);
    VocabularyFolder folder(vocabulary);
    const auto added = static_cast<Token>(vocabulary.tokens.size() + 2);  // leaves two holes
    folder.tokenizer["added_tokens"].push_back(
        {{"id", added}, {"content", "<|done|>"}, {"special", true}});
    folder.tokenizer["added_tokens"].push_back(
        {{"id", added + 1}, {"content", "<tool>"}, {"special", false}});
    folder.tokenizer["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single", {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}}}};
    folder.settings = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
    folder.generation = {{"eos_token_id", {2, added}}};
    const auto found = folder.open(added + 2);
    ASSERT_TRUE(found.ok()) << found.error().message;
    const Tokenizer& tokenizer = **found;
    EXPECT_EQ(tokenizer.bos(), 1);
    EXPECT_EQ(tokenizer.eos(), 2);
    EXPECT_TRUE(tokenizer.adds_bos());
    EXPECT_FALSE(tokenizer.adds_eos());
    EXPECT_TRUE(tokenizer.is_end_of_generation(2));
    EXPECT_TRUE(tokenizer.is_end_of_generation(added));
    EXPECT_TRUE(tokenizer.is_special(added));
    EXPECT_FALSE(tokenizer.is_special(added + 1));
    EXPECT_EQ(tokenizer.token_bytes(added - 1), "");
    EXPECT_EQ(tokenizer.encode("<tool>", {.add_special = false}), std::vector<Token>{added + 1});
    EXPECT_EQ(tokenizer.encode("<|done|>", {.add_special = false, .parse_special = true}),
              std::vector<Token>{added});
    EXPECT_EQ(tokenizer.encode("x").front(), 1);
}

TEST(HfTokenizer, UnknownPatternsAreQuoted) {
    const auto file =
        model::GgufFile::open(std::string(HELIX_SOURCE_DIR) + "/models/helix-demo.gguf");
    const auto vocabulary = *read_vocabulary(**file);
    VocabularyFolder folder(vocabulary);
    folder.tokenizer["model"]["byte_fallback"] = false;
    folder.tokenizer["pre_tokenizer"] = split("[a-z]+");
    const auto found = folder.open(10000);
    ASSERT_FALSE(found.ok());
    EXPECT_NE(
        found.error().message.find("splits by \"[a-z]+\"; known are those of gpt-2, starcoder"),
        std::string::npos)
        << found.error().message;
}

TEST(HfTokenizer, OnlySplitsThatKeepAllOfATextAreTaken) {
    Vocabulary v;
    v.model = "gpt2";
    for (const char* text : {"a", "b", "ab"}) {
        v.tokens.emplace_back(text);
        v.kinds.push_back(TokenKind::normal);
    }
    v.merges = {"a b"};
    VocabularyFolder folder(v);
    const auto error = [&](const Json& pre_tokenizer) {
        folder.tokenizer["pre_tokenizer"] = pre_tokenizer;
        const auto made = folder.open(3);
        return made.ok() ? "no error" : made.error().message;
    };
    Json one = splits({kQwen2Split});
    one["pretokenizers"][0]["behavior"] = "Removed";
    EXPECT_NE(error(one).find("behavior \"Removed\" with invert false"), std::string::npos);
    one["pretokenizers"][0]["invert"] = true;  // what granite and MiniMax write
    EXPECT_EQ(error(one), "no error");
    Json several = splits(kDeepSeekV3);
    EXPECT_EQ(error(several), "no error");
    several["pretokenizers"][2]["behavior"] = "Removed";
    several["pretokenizers"][2]["invert"] = true;
    EXPECT_NE(error(several).find("expected false with several splits"), std::string::npos);
}

}  // namespace
}  // namespace helix::text::hf_tokenizer_test
