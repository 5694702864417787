// Completions that fill in between a prompt and a suffix.

#include <gmock/gmock.h>

#include "api_fixture.h"

namespace helix::api::infill_test {
namespace {

using ::testing::HasSubstr;

class InfillCodec final : public ByteCodec {
  public:
    std::optional<std::vector<Token>> encode_infill(std::string_view before,
                                                    std::string_view after) const override {
        return encode("[" + std::string(before) + "]" + std::string(after) + "|", false);
    }
};

class InfillTest : public ApiTest {
  protected:
    std::unique_ptr<const TextCodec> make_codec() override {
        if (fills_) return std::make_unique<InfillCodec>();
        return std::make_unique<ByteCodec>();
    }
    Json refused(const std::string& path, const std::string& body) {
        const auto response = post(path, body);
        EXPECT_EQ(response.status, 400) << response.body;
        return Json::parse(response.body)["error"];
    }
    // The prompt that is made of the body of a completion.
    std::string prompt_of(const std::string& body) {
        auto c = client();
        c.request("POST", "/v1/completions", body);
        auto request = service_.next();
        if (!request) return "none";
        request->finish(core::FinishReason::stop);
        EXPECT_EQ(c.read_response().status, 200);
        return request->prompt();
    }
    bool fills_ = true;
};

TEST_F(InfillTest, TheAnswerIsWhatBelongsBetween) {
    auto c = client();
    c.request("POST", "/v1/completions", R"({"prompt":["a","b"],"suffix":"z","max_tokens":5})");
    for (const char* prompt : {"[a]z|", "[b]z|"}) {
        auto request = service_.next();
        ASSERT_TRUE(request);
        EXPECT_EQ(request->prompt(), prompt);
        request->accept();
        request->say("x");
        request->finish(core::FinishReason::stop);
    }
    const Json answer = Json::parse(c.read_response().body);
    EXPECT_EQ(answer["choices"].size(), 2U);
    EXPECT_EQ(answer["choices"][1]["text"], "x");
    EXPECT_EQ(answer["usage"]["prompt_tokens"], 10);
}

TEST_F(InfillTest, AnEmptySuffixIsNoneAndAnEmptyPromptIsABeginning) {
    EXPECT_EQ(prompt_of(R"({"prompt":"a","suffix":""})"), "a");
    EXPECT_EQ(prompt_of(R"({"prompt":"","suffix":"z"})"), "[]z|");
}

TEST_F(InfillTest, WhatCannotBeFilledInIsA400) {
    const std::string path = "/v1/completions";
    for (const char* body :
         {R"({"prompt":[65],"suffix":"z"})", R"({"prompt":["a",[65]],"suffix":"z"})",
          R"({"prompt":"a","suffix":"z","echo":true})", R"({"prompt":"a","suffix":5})"}) {
        EXPECT_EQ(refused(path, body)["param"], "suffix") << body;
    }
    const Json chat = refused("/v1/chat/completions",
                              R"({"messages":[{"role":"user","content":"a"}],"suffix":"z"})");
    EXPECT_EQ(chat["param"], "suffix");
    const Json body = {{"prompt", "a"}, {"suffix", std::string(200, 'z')}};
    EXPECT_EQ(refused(path, body.dump())["code"], "context_length_exceeded");
}

TEST_F(InfillTest, AModelThatCannotSaysSo) {
    fills_ = false;
    const Json error = refused("/v1/completions", R"({"prompt":"a","suffix":"z"})");
    EXPECT_EQ(error["param"], "suffix");
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("not made to fill in"));
}

}  // namespace
}  // namespace helix::api::infill_test
