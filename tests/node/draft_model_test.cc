#include "node/draft_model.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "model/synth.h"

namespace helix::node::draft_model_test {
namespace {

namespace fs = std::filesystem;
using spec::Token;

class DraftModelTest : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string name = (fs::temp_directory_path() / "helix-draft-XXXXXX").string();
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        dir_ = name;
        path_ = make("tiny.gguf", 0);
    }
    void TearDown() override { fs::remove_all(dir_); }

    std::string make(const std::string& name, std::uint64_t seed) const {
        model::SynthOptions synth;
        synth.path = (dir_ / name).string();
        synth.seed = seed;
        EXPECT_TRUE(model::synth_model(synth).ok());
        return synth.path;
    }

    static std::unique_ptr<DraftModel> open(const std::string& path, std::int64_t kv_tokens = 0) {
        const auto file = model::GgufFile::open(path);
        EXPECT_TRUE(file.ok());
        DraftModelOptions options;
        options.path = path;
        options.threads = 1;
        options.kv_tokens = kv_tokens;
        options.block_size = 8;
        auto model = DraftModel::open(options, **file);
        EXPECT_TRUE(model.ok()) << model.error().message;
        return std::move(*model);
    }

    static std::map<std::uint64_t, core::Drafted> answers(DraftModel& model) {
        std::map<std::uint64_t, core::Drafted> all;
        for (int i = 0; !model.idle(); ++i) {
            EXPECT_LT(i, 1000);
            for (core::Drafted& one : model.run()) all[one.id.value] = std::move(one);
        }
        return all;
    }

    // What a model says that has never seen the text.
    std::vector<Token> fresh(const std::vector<Token>& text, std::int32_t count) const {
        const auto model = open(path_);
        model->ask({{1}, 0, text, count});
        return answers(*model)[1].tokens;
    }

    static std::vector<Token> random_text(std::uint64_t seed, std::int32_t n) {
        base::Random random(seed);
        std::vector<Token> text(static_cast<std::size_t>(n));
        for (Token& token : text) token = static_cast<Token>(random.below(200));
        return text;
    }

    fs::path dir_;
    std::string path_;
};

TEST_F(DraftModelTest, AnotherVocabularyIsAnErrorThatSaysWhatDiffers) {
    const std::string stories = HELIX_DATA_DIR "/models/stories260K.gguf";
    if (!fs::exists(stories)) GTEST_SKIP() << "no " << stories;
    const auto served = model::GgufFile::open(stories);
    ASSERT_TRUE(served.ok());
    DraftModelOptions options;
    options.path = path_;
    const auto model = DraftModel::open(options, **served);
    ASSERT_FALSE(model.ok());
    EXPECT_NE(model.error().message.find("tiny.gguf: its token 259 is"), std::string::npos)
        << model.error().message;
    model::SynthShape larger = model::synth_shapes().front();
    larger.vocab += 8;
    model::SynthOptions synth;
    synth.path = options.path = (dir_ / "larger.gguf").string();
    ASSERT_TRUE(model::synth_model(larger, model::TensorType::q8_0, synth).ok());
    const auto more = DraftModel::open(options, **served);
    ASSERT_FALSE(more.ok());
    EXPECT_NE(more.error().message.find("has a vocabulary of 520 tokens"), std::string::npos)
        << more.error().message;
    options.path = (dir_ / "absent.gguf").string();
    EXPECT_FALSE(DraftModel::open(options, **served).ok());
}

TEST_F(DraftModelTest, DraftsWhatTheModelWouldSayGreedily) {
    const std::string stories = HELIX_DATA_DIR "/models/stories260K.gguf";
    if (!fs::exists(stories)) GTEST_SKIP() << "no " << stories;
    std::ifstream file(HELIX_DATA_DIR "/models/stories260K_greedy.json");
    const auto model = open(stories);
    std::uint64_t id = 0;
    std::map<std::uint64_t, std::vector<Token>> expected;
    for (const nlohmann::json& answer : nlohmann::json::parse(file)) {
        const std::vector<Token> prompt = answer["prompt_tokens"];
        const std::vector<Token> tokens = answer["tokens"];
        const auto count = std::min<std::size_t>(20, tokens.size());
        expected[++id] = {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count)};
        model->ask({{id}, 0, prompt, static_cast<std::int32_t>(count)});
    }
    ASSERT_GT(expected.size(), 1U);
    const auto all = answers(*model);
    for (const auto& [which, tokens] : expected) EXPECT_EQ(all.at(which).tokens, tokens);
}

TEST_F(DraftModelTest, WhatIsKnownIsNotComputedAgain) {
    const auto model = open(path_);
    std::vector<Token> text = random_text(1, 100);
    model->ask({{1}, 0, text, 4});
    const core::Drafted first = answers(*model)[1];
    EXPECT_EQ(first.position, 100);
    ASSERT_EQ(first.tokens.size(), 4U);
    EXPECT_EQ(model->rows_run(), 100 + 3) << "nothing is drawn after the last draft";
    // Two tokens of the draft were right.
    const Token other = first.tokens[2] == 7 ? 8 : 7;
    const std::vector<Token> more = {first.tokens[0], first.tokens[1], other};
    text.insert(text.end(), more.begin(), more.end());
    model->ask({{1}, 100, more, 3});
    const core::Drafted second = answers(*model)[1];
    EXPECT_EQ(second.position, 103);
    EXPECT_EQ(model->rows_run(), 103 + 1 + 2);
    EXPECT_EQ(second.tokens, fresh(text, 3));
}

TEST_F(DraftModelTest, ATextCanBeToldBeforeItIsAskedAbout) {
    const auto model = open(path_);
    std::vector<Token> text = random_text(2, 300);
    model->ask({{1}, 0, text, 0});
    EXPECT_TRUE(answers(*model).empty());
    EXPECT_EQ(model->rows_run(), 299);
    model->ask({{1}, 300, {9}, 2});
    text.push_back(9);
    EXPECT_EQ(answers(*model)[1].tokens, fresh(text, 2));
    EXPECT_EQ(model->rows_run(), 299 + 2 + 1);
    model->ask({{2}, 0, {5}, 0});
    EXPECT_TRUE(model->idle()) << "nothing to prepare";
}

TEST_F(DraftModelTest, TheKvOfWhatWasNotUsedForLongestGoes) {
    const auto model = open(path_, 64);  // two texts of 24 and their drafts
    std::map<std::uint64_t, std::vector<Token>> texts;
    for (int round = 0; round < 4; ++round) {
        for (std::uint64_t id = 1; id <= 5; ++id) {
            std::vector<Token>& text = texts[id];
            const auto before = static_cast<std::int32_t>(text.size());
            const std::vector<Token> more =
                random_text(10 * id + static_cast<std::uint64_t>(round), before == 0 ? 12 : 4);
            text.insert(text.end(), more.begin(), more.end());
            model->ask({{id}, before, more, 3});
            if (id % 2 == 0) continue;  // with the next one, in one batch
            for (const auto& [which, drafted] : answers(*model)) {
                EXPECT_EQ(drafted.tokens, fresh(texts[which], 3)) << "text " << which;
            }
        }
    }
    model->ask({{9}, 0, random_text(99, 70), 3});
    EXPECT_TRUE(answers(*model)[9].tokens.empty()) << "more than all the memory there is";
    for (std::uint64_t id = 1; id <= 9; ++id) model->forget({id});
    model->ask({{1}, 0, texts[1], 3});
    EXPECT_EQ(answers(*model)[1].tokens, fresh(texts[1], 3));
}

TEST_F(DraftModelTest, OneThatIsAskedAgainIsAnsweredForTheLongerText) {
    const auto model = open(path_);
    std::vector<Token> text = random_text(3, 400);  // more than one batch
    model->ask({{1}, 0, text, 4});
    EXPECT_TRUE(model->run().empty());
    model->ask({{1}, 400, {5, 6}, 2});
    text.insert(text.end(), {5, 6});
    const auto all = answers(*model);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all.at(1).position, 402);
    EXPECT_EQ(all.at(1).tokens, fresh(text, 2));
    model->ask({{2}, 0, text, 2});
    model->forget({2});
    EXPECT_TRUE(model->idle());
    EXPECT_TRUE(model->run().empty());
}

}  // namespace
}  // namespace helix::node::draft_model_test
