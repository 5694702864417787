#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "golden_vocabulary.h"
#include "model/gguf.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"

// tests/golden/*.json, written by tools/tokenizer_vectors.py: expected ids from code that shares
// nothing with ours. tools/compare_tokenizer.py makes files of the same form from another program's
// answers.

namespace helix::text::tokenizer_golden_test {
namespace {

using nlohmann::json;
using testing_support::load_golden;
using testing_support::update;

// Encodes every case of a suite and counts the differences; the first few are shown.
std::size_t mismatches(const Tokenizer& tokenizer, const json& cases) {
    std::size_t wrong = 0;
    for (const json& item : cases) {
        const auto text = item.at("text").get<std::string>();
        const auto expected = item.at("ids").get<std::vector<Token>>();
        const auto ids =
            tokenizer.encode(text, {.add_special = item.value("add_special", false),
                                    .parse_special = item.value("parse_special", false)});
        if (ids == expected) continue;
        if (++wrong <= 5) {
            ADD_FAILURE() << item.at("text").dump(-1, ' ', true) << "\n  expected "
                          << testing::PrintToString(expected) << "\n  got      "
                          << testing::PrintToString(ids);
        }
    }
    return wrong;
}

void check_vectors(const char* name, std::size_t least) {
    const json suites = load_golden(name);
    ASSERT_TRUE(suites.is_array()) << name;
    Vocabulary vocabulary;
    std::size_t checked = 0;
    for (const json& suite : suites) {
        update(vocabulary, suite.at("vocabulary"));
        const auto tokenizer = Tokenizer::create(vocabulary);
        ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
        EXPECT_EQ(mismatches(**tokenizer, suite.at("cases")), 0U) << "pre: " << vocabulary.pre;
        checked += suite.at("cases").size();
    }
    EXPECT_GE(checked, least);
}

TEST(TokenizerGolden, SentencePieceIdsEqualTheNaiveEncoder) {
    check_vectors("tokenizer_spm.json", 300);
}

TEST(TokenizerGolden, ByteLevelIdsEqualTheNaiveEncoderForEachPreTokenizer) {
    check_vectors("tokenizer_byte_bpe.json", 600);
}

TEST(TokenizerGolden, WordsEqualTheHandWrittenSplitters) {
    const json suites = load_golden("pre_tokenizer.json");
    ASSERT_TRUE(suites.is_array());
    ASSERT_EQ(suites.size(), 11U);
    for (const json& suite : suites) {
        const auto name = suite.at("pre").get<std::string>();
        const auto pre_tokenizer = PreTokenizer::create(name);
        ASSERT_TRUE(pre_tokenizer.ok()) << pre_tokenizer.error().message;
        for (const json& item : suite.at("cases")) {
            const auto text = item.at("text").get<std::string>();
            const auto words = pre_tokenizer->split(text);
            EXPECT_EQ(std::vector<std::string>(words.begin(), words.end()),
                      item.at("words").get<std::vector<std::string>>())
                << name;
        }
    }
}

// Families that split as others do, and add no BOS of their own.
TEST(TokenizerGolden, OtherNamesSplitAsTheOnesTheyShare) {
    const std::pair<const char*, const char*> names[] = {
        {"dbrx", "llama-bpe"},        {"smaug-bpe", "llama-bpe"}, {"glm4", "llama-bpe"},
        {"chatglm-bpe", "llama-bpe"}, {"command-r", "starcoder"}, {"llama4", "gpt-4o"},
        {"minimax-m2", "gpt-4o"},     {"jina-v1-en", "gpt-2"},    {"jina-v2-code", "gpt-2"},
        {"jina-v2-de", "gpt-2"},      {"jina-v2-es", "gpt-2"},    {"roberta-bpe", "gpt-2"},
        {"modern-bert", "gpt-2"}};
    const json suites = load_golden("pre_tokenizer.json");
    for (const auto& [name, as] : names) {
        const auto split = PreTokenizer::create(name);
        const auto shared = PreTokenizer::create(as);
        ASSERT_TRUE(split.ok()) << split.error().message;
        EXPECT_FALSE(split->adds_bos()) << name;
        for (const json& suite : suites) {
            for (const json& item : suite.at("cases")) {
                const auto text = item.at("text").get<std::string>();
                EXPECT_EQ(split->split(text), shared->split(text)) << name;
            }
        }
    }
}

// Another program's answers, only when tools/compare_tokenizer.py hands a file over.
TEST(TokenizerPeer, IdsEqualThePeersAnswers) {
    const char* path = std::getenv("HELIX_TOKENIZER_PEER_VECTORS");
    if (path == nullptr) GTEST_SKIP() << "run by tools/compare_tokenizer.py";
    std::ifstream in(path);
    const json suite = json::parse(in, nullptr, false);
    ASSERT_TRUE(suite.is_object()) << path;
    const auto file = model::GgufFile::open(suite.at("gguf").get<std::string>());
    ASSERT_TRUE(file.ok()) << file.error().message;
    auto vocabulary = read_vocabulary(**file);
    ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
    const auto tokenizer = Tokenizer::create(std::move(*vocabulary));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    const std::size_t wrong = mismatches(**tokenizer, suite.at("cases"));
    std::cout << "compared " << suite.at("cases").size() << " mismatches " << wrong << "\n";
    EXPECT_EQ(wrong, 0U);
}

}  // namespace
}  // namespace helix::text::tokenizer_golden_test
