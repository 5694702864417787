// The prompt in the answer of /v1/completions, with its log-probabilities.

#include "api_fixture.h"

namespace helix::api::echo_test {
namespace {

using core::FinishReason;

TEST_F(ApiTest, EchoWithLogprobsHasThePromptsTokensBeforeTheOutputs) {
    auto c = client();
    c.request("POST", "/v1/completions",
              R"({"prompt":"abc","echo":true,"logprobs":1,"max_tokens":2})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    EXPECT_TRUE(request->request.score_prompt);
    EXPECT_EQ(request->request.sampling.n_logprobs, 1);
    request->score();
    request->say("xy");
    request->finish(FinishReason::length);
    const Json choice = Json::parse(c.read_response().body)["choices"][0];
    EXPECT_EQ(choice["text"], "abcxy");
    const Json& logprobs = choice["logprobs"];
    EXPECT_EQ(logprobs["tokens"], Json({"a", "b", "c", "x", "y"}));
    EXPECT_EQ(logprobs["token_logprobs"], Json({nullptr, -1.0, -2.0, -0.5, -0.5}));
    EXPECT_EQ(logprobs["text_offset"], Json({0, 1, 2, 3, 4}));
    ASSERT_EQ(logprobs["top_logprobs"].size(), 5U);
    EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
    EXPECT_EQ(logprobs["top_logprobs"][2], Json({{"c", -0.25}}));
}

TEST_F(ApiTest, WithMaxTokens0OnlyThePromptIsAnswered) {
    for (const bool logprobs : {true, false}) {
        auto c = client();
        c.request("POST", "/v1/completions",
                  std::string(R"({"prompt":"abc","echo":true,"max_tokens":0)") +
                      (logprobs ? R"(,"logprobs":0})" : "}"));
        auto request = service_.next();
        ASSERT_TRUE(request);
        EXPECT_EQ(request->request.max_tokens, 1);
        EXPECT_EQ(request->request.score_prompt, logprobs);
        if (logprobs) request->score();
        request->token(kByteEnd);
        request->finish(FinishReason::stop);
        const Json body = Json::parse(c.read_response().body);
        const Json& choice = body["choices"][0];
        EXPECT_EQ(choice["text"], "abc");
        EXPECT_EQ(choice["finish_reason"], "length");
        EXPECT_EQ(body["usage"]["completion_tokens"], 0);
        if (logprobs) {
            EXPECT_EQ(choice["logprobs"]["token_logprobs"], Json({nullptr, -1.0, -2.0}));
        } else {
            EXPECT_TRUE(choice["logprobs"].is_null());
        }
    }
}

TEST_F(ApiTest, AStreamWithMaxTokens0IsOneChunkWithThePromptAndTheEnd) {
    auto c = client();
    c.request("POST", "/v1/completions",
              R"({"prompt":[97,98,99],"echo":true,"logprobs":2,"max_tokens":0,"stream":true})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->score();
    request->token('x');
    request->finish(FinishReason::length);
    std::string text;
    Json token_logprobs = Json::array();
    std::string reason;
    for (const std::string& event : events(c.read_response().body)) {
        if (event == "[DONE]") continue;
        const Json choice = Json::parse(event)["choices"][0];
        text += choice["text"].get<std::string>();
        if (choice["finish_reason"].is_string()) reason = choice["finish_reason"];
        if (!choice["logprobs"].is_object()) continue;
        for (const Json& one : choice["logprobs"]["token_logprobs"]) token_logprobs.push_back(one);
    }
    EXPECT_EQ(text, "abc");
    EXPECT_EQ(token_logprobs, Json({nullptr, -1.0, -2.0}));
    EXPECT_EQ(reason, "length");
}

TEST_F(ApiTest, APromptOfOneTokenHasNoLogProbabilityAndIsAnswered) {
    auto c = client();
    c.request(
        "POST", "/v1/completions",
        R"({"prompt":[97],"echo":true,"logprobs":1,"max_completion_tokens":0,"max_tokens":0})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->token('x');
    request->finish(FinishReason::length);
    const Json choice = Json::parse(c.read_response().body)["choices"][0];
    EXPECT_EQ(choice["logprobs"]["tokens"], Json::array({"a"}));
    EXPECT_EQ(choice["logprobs"]["token_logprobs"], Json::array({nullptr}));
    EXPECT_EQ(choice["logprobs"]["top_logprobs"], Json::array({nullptr}));
    EXPECT_EQ(choice["logprobs"]["text_offset"], Json::array({0}));
}

TEST_F(ApiTest, EveryChoiceOfAPromptAndAStreamsFirstChunkHaveThem) {
    auto c = client();
    c.request("POST", "/v1/completions",
              R"({"prompt":["ab","cd"],"n":2,"echo":true,"logprobs":0,"max_tokens":1})");
    auto one = service_.next();
    auto two = service_.next();
    ASSERT_TRUE(one && two);
    for (auto* request : {&*two, &*one}) {
        request->score();
        for (const std::int32_t choice : {0, 1}) {
            request->say("z", choice);
            request->finish_choice(choice, FinishReason::length);
        }
        request->finish(FinishReason::length);
    }
    const Json body = Json::parse(c.read_response().body);
    ASSERT_EQ(body["choices"].size(), 4U);
    for (std::size_t i = 0; i < 4; ++i) {
        const Json& logprobs = body["choices"][i]["logprobs"];
        EXPECT_EQ(logprobs["token_logprobs"], Json({nullptr, -1.0, -0.5})) << i;
        EXPECT_EQ(logprobs["tokens"][0], i < 2 ? "a" : "c");
    }
    auto stream = client();
    stream.request("POST", "/v1/completions",
                   R"({"prompt":"ab","echo":true,"logprobs":0,"max_tokens":2,"stream":true})");
    auto streamed = service_.next();
    ASSERT_TRUE(streamed);
    streamed->score();
    streamed->say("yz");
    streamed->finish(FinishReason::length);
    const auto chunks = events(stream.read_response().body);
    ASSERT_GE(chunks.size(), 2U);
    const Json first = Json::parse(chunks[0])["choices"][0];
    EXPECT_EQ(first["text"], "aby");
    EXPECT_EQ(first["logprobs"]["token_logprobs"], Json({nullptr, -1.0, -0.5}));
    const Json second = Json::parse(chunks[1])["choices"][0];
    EXPECT_EQ(second["text"], "z");
    EXPECT_EQ(second["logprobs"]["text_offset"], Json::array({3}));
}

}  // namespace
}  // namespace helix::api::echo_test
