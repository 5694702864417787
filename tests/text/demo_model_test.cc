#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/gguf.h"
#include "text/detokenizer.h"
#include "text/template/chat_template.h"
#include "text/tokenizer.h"

// The models of the repository, against what the Python tools that made them wrote down
// (tools/demo_model/check.py --vectors).

namespace helix::text::demo_model_test {
namespace {

class DemoModel : public testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        const std::string root = HELIX_SOURCE_DIR;
        const std::string name = GetParam();
        std::ifstream in(root + "/tests/golden/" + name + ".json");
        ASSERT_TRUE(in) << "no tests/golden/" << name << ".json";
        vectors_ = nlohmann::ordered_json::parse(in);
        auto file = model::GgufFile::open(root + "/models/" + name + ".gguf");
        ASSERT_TRUE(file.ok()) << file.error().message;
        auto vocabulary = read_vocabulary(**file);
        ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
        auto parsed = ChatTemplate::parse(vocabulary->chat_template);
        ASSERT_TRUE(parsed.ok()) << parsed.error().message;
        template_ = *parsed;
        auto tokenizer = Tokenizer::create(std::move(*vocabulary));
        ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
        tokenizer_ = *tokenizer;
    }

    nlohmann::ordered_json vectors_;
    std::shared_ptr<const ChatTemplate> template_;
    std::shared_ptr<const Tokenizer> tokenizer_;
};

TEST_P(DemoModel, EncodesAndDecodesAsItsMakerDid) {
    ASSERT_GE(vectors_["tokenizer"].size(), 15U);
    for (const auto& one : vectors_["tokenizer"]) {
        const auto text = one["text"].get<std::string>();
        const auto ids = tokenizer_->encode(text, {.add_special = false});
        EXPECT_EQ(ids, one["ids"].get<std::vector<Token>>()) << testing::PrintToString(text);
        if (text.find("\xe2\x96\x81") == std::string::npos) {
            EXPECT_EQ(decode(*tokenizer_, ids), text);
        }
    }
}

TEST_P(DemoModel, RendersConversationsAsItWasTaught) {
    for (const auto& one : vectors_["chat"]) {
        ChatRequest request;
        request.messages = one["messages"];
        request.bos_token = "<s>";
        request.eos_token = "</s>";
        if (one.contains("tools") && !one["tools"].empty()) request.tools = one["tools"];
        const auto prompt = template_->render_chat(request);
        ASSERT_TRUE(prompt.ok()) << prompt.error().message;
        EXPECT_EQ(*prompt, one["prompt"].get<std::string>());
    }
}

TEST_P(DemoModel, ReadsTheRolesOfARenderedConversationAsControlTokens) {
    ASSERT_GE(vectors_["chat"].size(), 3U);
    for (const auto& one : vectors_["chat"]) {
        const auto prompt = one["prompt"].get<std::string>();
        const auto ids = tokenizer_->encode(prompt, {.add_special = false, .parse_special = true});
        EXPECT_EQ(ids, one["ids"].get<std::vector<Token>>()) << prompt;
    }
}

TEST_P(DemoModel, AnswersAreTextOfTheirOwn) {
    for (const auto& one : vectors_["chat"]) {
        const auto ids = one["greedy_ids"].get<std::vector<Token>>();
        EXPECT_EQ(decode(*tokenizer_, ids, {.starts_text = false}),
                  one["greedy_text"].get<std::string>());
        for (const Token id : ids) EXPECT_FALSE(tokenizer_->is_end_of_generation(id));
    }
    ASSERT_TRUE(tokenizer_->eos().has_value());
    EXPECT_TRUE(tokenizer_->is_end_of_generation(*tokenizer_->eos()));
}

INSTANTIATE_TEST_SUITE_P(All, DemoModel, testing::Values("helix-demo", "helix-demo-tools"),
                         [](const auto& model) {
                             return std::string(model.index == 0 ? "Talks" : "CallsTools");
                         });

}  // namespace
}  // namespace helix::text::demo_model_test
