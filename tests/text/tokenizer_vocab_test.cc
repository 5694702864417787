#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "model/gguf.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

// The published vocabularies and cases of HELIX_DATA_DIR/vocab: no BOS or EOS, special tokens not
// parsed.

namespace helix::text::tokenizer_vocab_test {
namespace {

namespace fs = std::filesystem;

fs::path vocab_dir() {
    return fs::path(HELIX_DATA_DIR) / "vocab";
}

std::string read_file(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

std::vector<std::string> read_cases(const fs::path& path) {
    const std::string separator = "\n__ggml_vocab_test__\n";
    std::vector<std::string> cases;
    std::string text = read_file(path);
    for (std::size_t at = 0; (at = text.find(separator)) != std::string::npos;) {
        cases.push_back(text.substr(0, at));
        text.erase(0, at + separator.size());
    }
    if (!text.empty()) cases.push_back(text);
    return cases;
}

std::vector<std::vector<Token>> read_ids(const fs::path& path) {
    std::vector<std::vector<Token>> all;
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
        std::istringstream words(line);
        std::vector<Token>& ids = all.emplace_back();
        for (Token id = 0; words >> id;) ids.push_back(id);
    }
    return all;
}

class PublishedVocabulary : public testing::TestWithParam<const char*> {};

TEST_P(PublishedVocabulary, EncodesEveryCaseAndDecodesIt) {
    const std::string base = (vocab_dir() / "ggml-vocab-").string() + GetParam() + ".gguf";
    if (!fs::exists(base)) GTEST_SKIP() << "no " << base;
    auto file = model::GgufFile::open(base);
    ASSERT_TRUE(file.ok()) << file.error().message;
    auto vocabulary = read_vocabulary(**file);
    ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
    auto made = Tokenizer::create(std::move(*vocabulary));
    ASSERT_TRUE(made.ok()) << made.error().message;
    const auto tokenizer = *made;

    const std::vector<std::string> cases = read_cases(base + ".inp");
    const std::vector<std::vector<Token>> expected = read_ids(base + ".out");
    ASSERT_EQ(cases.size(), expected.size());
    ASSERT_GE(cases.size(), 46U);
    for (std::size_t i = 0; i < cases.size(); ++i) {
        const auto ids = tokenizer->encode(cases[i], {.add_special = false});
        EXPECT_EQ(ids, expected[i]) << "case " << i << ": " << testing::PrintToString(cases[i]);
        EXPECT_EQ(decode(*tokenizer, ids), cases[i]) << "case " << i;
    }
}

INSTANTIATE_TEST_SUITE_P(Vocab, PublishedVocabulary,
                         testing::Values("llama-spm", "gpt-2", "starcoder"),
                         [](const auto& parameter) {
                             std::string name = parameter.param;
                             std::erase(name, '-');
                             return name;
                         });

}  // namespace
}  // namespace helix::text::tokenizer_vocab_test
