#include "api/model_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace helix::api {
namespace {

using Json = nlohmann::ordered_json;

// On the demo model, which is part of the repository.
class ModelCodecTest : public ::testing::Test {
  protected:
    void SetUp() override {
        auto file =
            model::GgufFile::open(std::string(HELIX_SOURCE_DIR) + "/models/helix-demo.gguf");
        ASSERT_TRUE(file.ok()) << file.error().message;
        file_ = *file;
        use_template("");
    }
    void use_template(const std::string& source) {
        auto codec = ModelCodec::create(*file_, source);
        ASSERT_TRUE(codec.ok()) << codec.error().message;
        codec_ = std::move(codec).value();
    }
    std::vector<Token> chat(const Json& messages) const {
        ChatPrompt prompt;
        prompt.messages = &messages;
        auto tokens = codec_->encode_chat(prompt);
        EXPECT_TRUE(tokens.ok()) << tokens.error().message;
        return tokens.ok() ? *tokens : std::vector<Token>();
    }
    std::ptrdiff_t count(const std::vector<Token>& tokens, Token token) const {
        return std::count(tokens.begin(), tokens.end(), token);
    }

    std::shared_ptr<const model::GgufFile> file_;
    std::unique_ptr<const TextCodec> codec_;
};

TEST_F(ModelCodecTest, WithoutATemplateMessagesAreGivenAsPlainLines) {
    use_template(kPlainTemplate);
    const auto tokens = chat(Json::parse(R"([{"role":"system","content":"Once"},
                                             {"role":"user","content":"upon a time"}])"));
    EXPECT_EQ(tokens, codec_->encode("Once\nupon a time", true));
}

TEST_F(ModelCodecTest, ATemplateThatCannotBeParsedIsNamedWithItsLine) {
    const auto codec = ModelCodec::create(*file_, "{% for m in %}");
    ASSERT_FALSE(codec.ok());
    EXPECT_NE(codec.error().message.find("chat template"), std::string::npos);
    EXPECT_NE(codec.error().message.find("line 1"), std::string::npos) << codec.error().message;
}

TEST_F(ModelCodecTest, WhatAUserSpellsOutIsNeverAControlToken) {
    ASSERT_FALSE(codec_->end_tokens().empty());
    const auto plain = chat(Json::parse(R"([{"role":"user","content":"Hello there."}])"));
    ASSERT_FALSE(plain.empty());
    for (const Token end : codec_->end_tokens()) {
        const std::string text = codec_->token_bytes(end);
        const Json messages = Json::array(
            {{{"role", "user"}, {"content", "Hello" + text + " there. " + text + text}}});
        const auto tokens = chat(messages);
        EXPECT_EQ(count(tokens, end), count(plain, end)) << text;
        EXPECT_GT(tokens.size(), plain.size());
    }
}

TEST_F(ModelCodecTest, ARawPromptMaySpellOutControlTokens) {
    const Token end = codec_->end_tokens().front();
    const auto tokens = codec_->encode("a" + codec_->token_bytes(end) + "b", false);
    EXPECT_EQ(count(tokens, end), 1);
}

TEST_F(ModelCodecTest, ADeveloperIsASystemToATemplateThatKnowsNone) {
    const auto conversation = [](const char* role) {
        return Json::array({{{"role", role}, {"content", "Be brief."}},
                            {{"role", "user"}, {"content", "Hello."}}});
    };
    EXPECT_EQ(chat(conversation("developer")), chat(conversation("system")));
}

TEST_F(ModelCodecTest, StreamedTextIsTheDecodedTextAndStopsBeforeAStopString) {
    const std::string text =
        "The router keeps the coordinator awake. \xC3\x84pfel \xF0\x9F\x98\x80!";
    const auto tokens = codec_->encode(" " + text, false);
    const auto output = codec_->outputs({}, true)->make();
    std::string joined;
    for (const Token token : tokens) joined += output->push(token, true);
    joined += output->finish();
    EXPECT_NE(joined.find(text), std::string::npos) << joined;

    const auto stopping = codec_->outputs({"coordinator"}, true)->make();
    std::string before;
    for (const Token token : tokens) before += stopping->push(token, true);
    EXPECT_TRUE(stopping->stopped());
    EXPECT_TRUE(before.ends_with("keeps the ")) << before;

    const auto early = codec_->outputs({"coordinator"}, true)->make();
    std::string all;
    for (const Token token : tokens) all += early->push(token, false);
    EXPECT_FALSE(early->stopped());
    EXPECT_NE((all + early->finish()).find("coordinator"), std::string::npos);
}

}  // namespace
}  // namespace helix::api
