#include "api_fixture.h"

namespace helix::api::completion_test {
namespace {

using core::FinishReason;

TEST_F(ApiTest, AWholeAnswerHasAllFieldsThatClientsRead) {
    auto c = client();
    c.request("POST", "/v1/chat/completions",
              R"({"model":"gpt-x","messages":[{"role":"system","content":"S"},
                 {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    EXPECT_EQ(request->prompt(), "system:S\nuser:a\nb\nassistant:");
    request->route();
    request->say("Hello");
    request->token(kByteEnd);
    request->finish(FinishReason::stop);
    const auto response = c.read_response();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.header("content-type"), "application/json");
    Json body = Json::parse(response.body);
    EXPECT_TRUE(body["id"].get<std::string>().starts_with("chatcmpl-"));
    body.erase("id");
    EXPECT_EQ(body, Json::parse(R"({"object":"chat.completion","created":1234567890,"model":"gpt-x",
        "system_fingerprint":"fp_helix","choices":[{"index":0,"message":{"role":"assistant",
        "content":"Hello","refusal":null},"logprobs":null,"finish_reason":"stop"}],
        "usage":{"prompt_tokens":28,"completion_tokens":6,"total_tokens":34,
        "prompt_tokens_details":{"cached_tokens":0},
        "completion_tokens_details":{"reasoning_tokens":0}}})"));
}

TEST_F(ApiTest, CachedTokensAreThoseOfTheTryThatGaveTheFirstToken) {
    auto c = client();
    c.request("POST", "/v1/completions", R"({"prompt":["abcdefgh","ijkl"]})");
    auto one = service_.next();
    auto two = service_.next();
    ASSERT_TRUE(one && two);
    one->route(7);
    one->route(4);  // not all of it was there any more
    two->route(3);
    one->say("1");
    two->say("2");
    one->route(8);  // preempted
    one->finish(FinishReason::length);
    two->finish(FinishReason::length);
    const Json body = Json::parse(c.read_response().body);
    EXPECT_EQ(body["usage"]["prompt_tokens"], 12);
    EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 7);
}

TEST_F(ApiTest, WhatIsSaidAboutDraftingReachesTheService) {
    auto c = client();
    c.request("POST", "/v1/completions", R"({"prompt":"a"})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    EXPECT_EQ(request->request.max_draft_tokens, -1) << "as the server does";
    EXPECT_TRUE(request->request.prediction.empty());
    request->finish(FinishReason::length);
    c.read_response();
    c.request("POST", "/v1/chat/completions",
              R"({"messages":[{"role":"user","content":"u"}],"speculative.n_max":0,
                  "prediction":{"type":"content","content":[{"type":"text","text":"A"},
                  {"type":"text","text":"B"}]}})");
    request = service_.next();
    ASSERT_TRUE(request);
    EXPECT_EQ(request->request.max_draft_tokens, 0);
    EXPECT_EQ(request->request.prediction, (std::vector<Token>{'A', 'B'}));
}

TEST_F(ApiTest, EveryParameterReachesTheService) {
    auto c = client();
    c.request(
        "POST", "/v1/completions",
        R"({"prompt":[65,66],"max_tokens":9,"temperature":0.25,"top_p":0.5,"top_k":7,"min_p":0.125,
                  "repetition_penalty":1.5,"frequency_penalty":0.5,"presence_penalty":-0.5,"seed":-2,
                  "logit_bias":{"65":-100,"66":1.5},"min_tokens":3,"stop_token_ids":[10],"priority":-4,
                  "logprobs":3,"user":"u","unknown_field":{"a":[1]}})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    const core::Request& r = request->request;
    EXPECT_EQ(r.prompt, (std::vector<Token>{65, 66}));
    EXPECT_EQ(r.max_tokens, 9);
    EXPECT_EQ(r.min_tokens, 3);
    EXPECT_EQ(r.stop_tokens, (std::vector<Token>{kByteEnd, 10}));
    EXPECT_EQ(r.priority, 4);
    EXPECT_EQ(r.sampling.temperature, 0.25F);
    EXPECT_EQ(r.sampling.top_p, 0.5F);
    EXPECT_EQ(r.sampling.top_k, 7);
    EXPECT_EQ(r.sampling.min_p, 0.125F);
    EXPECT_EQ(r.sampling.repetition_penalty, 1.5F);
    EXPECT_EQ(r.sampling.frequency_penalty, 0.5F);
    EXPECT_EQ(r.sampling.presence_penalty, -0.5F);
    EXPECT_EQ(r.sampling.seed, static_cast<std::uint64_t>(-2));
    EXPECT_EQ(r.sampling.n_logprobs, 3);
    EXPECT_EQ(r.sampling.logit_bias,
              (std::vector<std::pair<Token, float>>{{65, -100.0F}, {66, 1.5F}}));
    request->finish(FinishReason::length);
    EXPECT_EQ(c.read_response().status, 200);
}

TEST_F(ApiTest, DefaultsAreOpenAisAndIgnoreEosKeepsTheEndToken) {
    auto c = client();
    c.request("POST", "/v1/completions", R"({"prompt":"a","ignore_eos":true})");
    auto plain = service_.next();
    ASSERT_TRUE(plain);
    EXPECT_EQ(plain->request.max_tokens, 16);
    EXPECT_TRUE(plain->request.stop_tokens.empty());
    EXPECT_EQ(plain->request.sampling.temperature, 1.0F);
    EXPECT_EQ(plain->request.sampling.n_logprobs, -1);
    plain->finish(FinishReason::length);
    c.read_response();
    c.request("POST", "/v1/chat/completions",
              R"({"messages":[{"role":"user","content":"a"}],"max_tokens":-1,"temperature":null})");
    auto chat = service_.next();
    ASSERT_TRUE(chat);
    EXPECT_EQ(chat->request.max_tokens, 0);
    EXPECT_EQ(chat->request.stop_tokens, std::vector<Token>{kByteEnd});
    chat->finish(FinishReason::length);
    c.read_response();
    c.request(
        "POST", "/v1/chat/completions",
        R"({"messages":[{"role":"user","content":"a"}],"max_tokens":5,"max_completion_tokens":6})");
    auto preferred = service_.next();
    ASSERT_TRUE(preferred);
    EXPECT_EQ(preferred->request.max_tokens, 6);
}

TEST_F(ApiTest, RequestsWithoutASeedGetDifferentOnesAndTheSameInEveryRun) {
    const auto seeds = [this] {
        server_.reset();
        start();
        std::vector<std::uint64_t> found;
        for (int i = 0; i < 2; ++i) {
            auto c = client();
            c.request("POST", "/v1/completions", R"({"prompt":"a"})");
            auto request = service_.next();
            if (request) found.push_back(request->request.sampling.seed);
        }
        return found;
    };
    const auto first = seeds();
    ASSERT_EQ(first.size(), 2U);
    EXPECT_NE(first[0], first[1]);
    EXPECT_EQ(first, seeds());
}

TEST_F(ApiTest, SeveralPromptsAreSeveralChoices) {
    auto c = client();
    c.request("POST", "/v1/completions", R"({"prompt":["one","two"],"echo":true})");
    auto one = service_.next();
    auto two = service_.next();
    ASSERT_TRUE(one && two);
    two->say("2");
    two->finish(FinishReason::stop);
    one->say("1");
    one->finish(FinishReason::length);
    const Json body = Json::parse(c.read_response().body);
    EXPECT_EQ(body["choices"][0]["text"], "one1");
    EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
    EXPECT_EQ(body["choices"][1]["text"], "two2");
    EXPECT_EQ(body["choices"][1]["finish_reason"], "stop");
    EXPECT_EQ(body["usage"]["prompt_tokens"], 6);
    EXPECT_EQ(body["usage"]["completion_tokens"], 2);
}

TEST_F(ApiTest, WhenOnePromptIsRefusedTheOthersAreGivenBack) {
    auto c = client();
    c.request("POST", "/v1/completions", R"({"prompt":["one","two"],"stream":true})");
    auto one = service_.next();
    auto two = service_.next();
    ASSERT_TRUE(one && two);
    one->say("early");
    core::RejectRequest rejection;
    rejection.message = "full";
    two->sink->on_reject(rejection);
    EXPECT_EQ(c.read_response().status, 429);
    EXPECT_EQ(service_.wait_ended(one->id), FinishReason::cancelled);
}

TEST_F(ApiTest, PlainLogprobsHaveFourParallelArrays) {
    auto c = client();
    c.request("POST", "/v1/completions", R"({"prompt":"a","logprobs":2})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->say("xy");
    request->finish(FinishReason::length);
    const Json logprobs = Json::parse(c.read_response().body)["choices"][0]["logprobs"];
    EXPECT_EQ(logprobs["tokens"], Json::array({"x", "y"}));
    EXPECT_EQ(logprobs["token_logprobs"], Json::array({-0.5, -0.5}));
    EXPECT_EQ(logprobs["text_offset"], Json::array({0, 1}));
    EXPECT_EQ(logprobs["top_logprobs"][1], (Json{{"y", -0.5}, {"?", -1.25}}));
}

TEST_F(ApiTest, MinTokensKeepsStopStringsAndStopTokensFromEndingTheAnswer) {
    auto c = client();
    c.request("POST", "/v1/completions",
              R"({"prompt":"a","min_tokens":4,"stop":"b","stop_token_ids":[99]})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->say("bc");  // a stop string and a stop token (99 is c), both too early
    request->say("dx");
    request->say("b");
    EXPECT_EQ(service_.wait_ended(request->id), FinishReason::stop);
    EXPECT_EQ(Json::parse(c.read_response().body)["choices"][0]["text"], "bcdx");
}

TEST_F(ApiTest, SpecialTokensAreShownOnlyWhenAskedFor) {
    for (const bool skip : {true, false}) {
        auto c = client();
        c.request(
            "POST", "/v1/completions",
            std::string(R"({"prompt":"a","skip_special_tokens":)") + (skip ? "true}" : "false}"));
        auto request = service_.next();
        ASSERT_TRUE(request);
        request->say("x");
        request->token(kByteSpecial);
        request->finish(FinishReason::length);
        EXPECT_EQ(Json::parse(c.read_response().body)["choices"][0]["text"],
                  skip ? "x" : "x<special>");
    }
}

TEST_F(ApiTest, ToolsReachTheTemplateUnlessTheyAreNotToBeUsed) {
    const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}}])";
    const std::string messages = R"("messages":[{"role":"user","content":"x"},
        {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function",
        "function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"r"}])";
    auto c = client();
    c.request("POST", "/v1/chat/completions", "{" + tools + "," + messages + "}");
    auto with = service_.next();
    ASSERT_TRUE(with);
    EXPECT_TRUE(with->prompt().starts_with("tools:[{")) << with->prompt();
    auto c2 = client();
    c2.request("POST", "/v1/chat/completions",
               "{\"tool_choice\":\"none\"," + tools + "," + messages + "}");
    auto without = service_.next();
    ASSERT_TRUE(without);
    EXPECT_TRUE(without->prompt().starts_with("user:x")) << without->prompt();
}

class EndedAfterAcceptance : public ApiTest {
  protected:
    net::TestClient::Response ends(FinishReason reason, const std::string& error) {
        auto c = client();
        c.request("POST", "/v1/completions", R"({"prompt":"a"})");
        auto request = service_.next();
        EXPECT_TRUE(request);
        if (!request) return {};
        request->say("x");
        request->finish(reason, error);
        return c.read_response();
    }
};

TEST_F(EndedAfterAcceptance, AnErrorIsA503WithoutStreaming) {
    const auto response = ends(FinishReason::error, "worker 2 was lost");
    EXPECT_EQ(response.status, 503);
    EXPECT_EQ(response.header("retry-after"), "1");
    EXPECT_EQ(Json::parse(response.body)["error"]["message"], "worker 2 was lost");
}

TEST_F(EndedAfterAcceptance, WhatCannotGoOnByItsOwnFaultIsA400AndNotWorthAnotherTry) {
    const auto response = ends(FinishReason::invalid_request, "the grammar is too costly");
    EXPECT_EQ(response.status, 400);
    EXPECT_EQ(response.header("retry-after"), "");
    const auto error = Json::parse(response.body)["error"];
    EXPECT_EQ(error["message"], "the grammar is too costly");
    EXPECT_EQ(error["type"], "invalid_request_error");
}

TEST_F(ApiTest, RefusalsHaveTheStatusOfTheirReason) {
    start();
    struct Case {
        core::RejectReason reason;
        int status;
        const char* code;
    };
    for (const Case& expected : {Case{core::RejectReason::queue_full, 429, "rate_limit_exceeded"},
                                 Case{core::RejectReason::too_long, 400, "context_length_exceeded"},
                                 Case{core::RejectReason::never_fits, 400, "never_fits"},
                                 Case{core::RejectReason::unavailable, 503, "overloaded"}}) {
        core::RejectRequest rejection;
        rejection.reason = expected.reason;
        rejection.message = "because";
        service_.reject_all(rejection);
        for (const char* stream : {"true", "false"}) {
            const auto response =
                post("/v1/completions", std::string(R"({"prompt":"a","stream":)") + stream + "}");
            EXPECT_EQ(response.status, expected.status);
            const Json error = Json::parse(response.body)["error"];
            EXPECT_EQ(error["code"], expected.code);
            EXPECT_EQ(error["message"], "because");
            EXPECT_EQ(!response.header("retry-after").empty(), expected.status != 400);
        }
    }
}

TEST_F(ApiTest, APromptThatLeavesNoRoomIsRefusedBeforeTheServiceSeesIt) {
    const auto response = post("/v1/completions",
                               R"({"max_tokens":101,"prompt":")" + std::string(100, 'x') + R"("})");
    EXPECT_EQ(response.status, 400);
    const Json error = Json::parse(response.body)["error"];
    EXPECT_EQ(error["code"], "context_length_exceeded");
    EXPECT_EQ(error["param"], "prompt");
    EXPECT_NE(error["message"].get<std::string>().find("200 tokens"), std::string::npos);
}

TEST_F(ApiTest, WhatTheTemplateRefusesIsTheCallersError) {
    const auto response =
        post("/v1/chat/completions", R"({"messages":[{"role":"function","content":"x"}]})");
    EXPECT_EQ(response.status, 400);
    EXPECT_EQ(Json::parse(response.body)["error"]["message"], "this template takes no functions");
}

TEST_F(ApiTest, StoppingWithRequestsUnderWayGivesThemAllBack) {
    auto c = client();
    c.request("POST", "/v1/completions", R"({"prompt":"a","stream":true})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->accept();
    EXPECT_EQ(c.read_head().status, 200);
    server_->stop();
    std::string rest;
    for (std::string chunk; c.read_chunk(chunk) && !chunk.empty();) rest += chunk;
    EXPECT_NE(rest.find("The server is shutting down."), std::string::npos) << rest;
    EXPECT_EQ(rest.find("[DONE]"), std::string::npos);
    EXPECT_TRUE(c.wait_closed());
    EXPECT_EQ(service_.wait_ended(request->id), FinishReason::cancelled);
    request->say("nobody listens");
    server_.reset();
    request->finish(FinishReason::cancelled);
}

}  // namespace
}  // namespace helix::api::completion_test
