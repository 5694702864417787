#include "api_fixture.h"

// Several answers to one prompt: n, best_of, beam search.

namespace helix::api::choices_test {
namespace {

using core::FinishReason;

TEST_F(ApiTest, SeveralChoicesAreOneRequestToTheService) {
    auto c = client();
    c.request("POST", "/v1/chat/completions",
              R"({"messages":[{"role":"user","content":"Hi"}],"n":3})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    EXPECT_EQ(request->request.n, 3);
    EXPECT_FALSE(request->request.beam);
    EXPECT_EQ(request->request.sampling.n_logprobs, -1);
    request->say("b", 1);
    request->say("a", 0);
    request->say("cc", 2);
    request->token(kByteEnd, 2);
    request->finish_choice(2, FinishReason::stop);
    request->finish_choice(0, FinishReason::length);
    request->finish_choice(1, FinishReason::length);
    request->finish(FinishReason::length);
    const Json body = Json::parse(c.read_response().body);
    ASSERT_EQ(body["choices"].size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(body["choices"][i]["index"], i);
    EXPECT_EQ(body["choices"][0]["message"]["content"], "a");
    EXPECT_EQ(body["choices"][1]["message"]["content"], "b");
    EXPECT_EQ(body["choices"][2]["message"]["content"], "cc");
    EXPECT_EQ(body["choices"][1]["finish_reason"], "length");
    EXPECT_EQ(body["choices"][2]["finish_reason"], "stop");
    EXPECT_EQ(body["usage"]["prompt_tokens"], 18) << "the prompt counts once";
    EXPECT_EQ(body["usage"]["completion_tokens"], 5);
}

TEST_F(ApiTest, StreamedChoicesCarryTheirIndexAndEndEachForItself) {
    auto c = client();
    c.request("POST", "/v1/chat/completions",
              R"({"stream":true,"stream_options":{"include_usage":true},"n":2,
                  "messages":[{"role":"user","content":"Hi"}]})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->say("x", 1);
    request->finish_choice(1, FinishReason::length);
    request->say("yz", 0);
    request->finish_choice(0, FinishReason::stop);
    request->finish(FinishReason::stop);
    std::vector<std::string> texts(2);
    std::vector<std::string> reasons(2);
    std::vector<int> roles(2);
    const auto all = events(c.read_response().body);
    ASSERT_GE(all.size(), 2U);
    EXPECT_EQ(all.back(), "[DONE]");
    for (std::size_t i = 0; i + 1 < all.size(); ++i) {
        const Json chunk = Json::parse(all[i]);
        if (chunk["choices"].empty()) {
            EXPECT_EQ(chunk["usage"]["completion_tokens"], 3);
            EXPECT_EQ(i, all.size() - 2);
            continue;
        }
        ASSERT_EQ(chunk["choices"].size(), 1U);
        const Json& choice = chunk["choices"][0];
        const auto index = choice["index"].get<std::size_t>();
        ASSERT_LT(index, 2U);
        EXPECT_EQ(reasons[index], "") << "nothing after the end";
        if (choice["delta"].contains("role")) ++roles[index];
        if (choice["delta"].contains("content")) texts[index] += choice["delta"]["content"];
        if (!choice["finish_reason"].is_null()) reasons[index] = choice["finish_reason"];
    }
    EXPECT_EQ(texts, (std::vector<std::string>{"yz", "x"}));
    EXPECT_EQ(reasons, (std::vector<std::string>{"stop", "length"}));
    EXPECT_EQ(roles, (std::vector<int>{1, 1}));
}

TEST_F(ApiTest, ChoicesOfSeveralPromptsAreNumberedPromptByPrompt) {
    auto c = client();
    c.request("POST", "/v1/completions",
              R"({"prompt":["one","two"],"n":2,"echo":true,"max_tokens":5})");
    auto one = service_.next();
    auto two = service_.next();
    ASSERT_TRUE(one && two);
    EXPECT_EQ(one->request.n, 2);
    for (const auto& [request, name] : {std::pair(&*two, "2"), std::pair(&*one, "1")}) {
        for (const std::int32_t choice : {1, 0}) {
            request->say(name, choice);
            request->say(choice == 0 ? "a" : "b", choice);
            request->finish_choice(choice, FinishReason::length);
        }
        request->finish(FinishReason::length);
    }
    const Json body = Json::parse(c.read_response().body);
    const char* expected[] = {"one1a", "one1b", "two2a", "two2b"};
    ASSERT_EQ(body["choices"].size(), 4U);
    for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(body["choices"][i]["index"], i);
        EXPECT_EQ(body["choices"][i]["text"], expected[i]);
    }
    EXPECT_EQ(body["usage"]["prompt_tokens"], 6);
    EXPECT_EQ(body["usage"]["completion_tokens"], 8);
}

TEST_F(ApiTest, AStopStringEndsOnlyItsChoice) {
    auto c = client();
    c.request("POST", "/v1/completions", R"({"prompt":"a","n":2,"stop":"END"})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->say("one END", 1);
    EXPECT_EQ(service_.wait_choice_ended(request->id, 1), FinishReason::stop);
    request->say("late", 1);
    request->finish_choice(1, FinishReason::length);  // under way when it was ended
    request->say("two END", 0);
    EXPECT_EQ(service_.wait_ended(request->id), FinishReason::stop) << "the last choice";
    const Json body = Json::parse(c.read_response().body);
    EXPECT_EQ(body["choices"][0]["text"], "two ");
    EXPECT_EQ(body["choices"][1]["text"], "one ");
    EXPECT_EQ(body["choices"][1]["finish_reason"], "stop");
}

TEST_F(ApiTest, BestOfShowsTheLikeliestAndNoLogprobsThatNobodyAskedFor) {
    auto c = client();
    c.request("POST", "/v1/completions", R"({"prompt":"a","n":2,"best_of":4,"max_tokens":3})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    EXPECT_EQ(request->request.n, 4);
    EXPECT_EQ(request->request.sampling.n_logprobs, 0);
    const float each[] = {-3, -1, -2, -0.5F};
    for (std::int32_t i = 0; i < 4; ++i) {
        request->say(std::string(i == 3 ? 3 : 1, static_cast<char>('a' + i)), i, each[i]);
        request->finish_choice(i, FinishReason::length);
    }
    request->finish(FinishReason::length);
    const Json body = Json::parse(c.read_response().body);
    ASSERT_EQ(body["choices"].size(), 2U);
    EXPECT_EQ(body["choices"][0]["text"], "b") << "-1 in all";
    EXPECT_EQ(body["choices"][1]["text"], "ddd") << "-1.5 in all";
    EXPECT_EQ(body["choices"][1]["index"], 1);
    EXPECT_TRUE(body["choices"][0]["logprobs"].is_null());
    EXPECT_EQ(body["usage"]["completion_tokens"], 6) << "all that were made";
}

TEST_F(ApiTest, LogprobsAreThoseOfTheirChoice) {
    auto c = client();
    c.request("POST", "/v1/completions", R"({"prompt":"a","n":2,"logprobs":0,"max_tokens":2})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->say("p", 0, -1);
    request->say("q", 1, -2);
    request->finish_choice(0, FinishReason::length);
    request->finish_choice(1, FinishReason::length);
    request->finish(FinishReason::length);
    const Json body = Json::parse(c.read_response().body);
    EXPECT_EQ(body["choices"][0]["logprobs"]["token_logprobs"], Json::array({-1}));
    EXPECT_EQ(body["choices"][1]["logprobs"]["token_logprobs"], Json::array({-2}));
    EXPECT_EQ(body["choices"][1]["logprobs"]["text_offset"], Json::array({0}));
}

TEST_F(ApiTest, BeamSearchReachesTheService) {
    auto c = client();
    c.request("POST", "/v1/completions",
              R"({"prompt":"a","n":2,"best_of":5,"use_beam_search":true,"length_penalty":0.5,
                  "early_stopping":"never","temperature":0,"stream":true})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    EXPECT_EQ(request->request.n, 2);
    ASSERT_TRUE(request->request.beam);
    EXPECT_EQ(request->request.beam->width, 5);
    EXPECT_EQ(request->request.beam->length_penalty, 0.5);
    EXPECT_EQ(request->request.beam->early_stopping, core::EarlyStopping::never);
    request->say("x", 0);
    request->finish_choice(0, FinishReason::length);
    request->say("y", 1);
    request->finish_choice(1, FinishReason::length);
    request->finish(FinishReason::length);
    EXPECT_EQ(events(c.read_response().body).back(), "[DONE]");
}

TEST_F(ApiTest, ChoicesThatMakeNoSenseAreRefusedByName) {
    struct Case {
        const char* fields;
        const char* param;
    };
    const Case cases[] = {
        {R"("n":0)", "n"},
        {R"("n":129)", "n"},
        {R"("n":"2")", "n"},
        {R"("n":3,"best_of":2)", "best_of"},
        {R"("best_of":129)", "best_of"},
        {R"("n":1,"best_of":2,"stream":true)", "best_of"},
        {R"("use_beam_search":1)", "use_beam_search"},
        {R"("length_penalty":2.0)", "length_penalty"},
        {R"("early_stopping":true)", "early_stopping"},
        {R"("use_beam_search":true,"early_stopping":"soon")", "early_stopping"},
        {R"("use_beam_search":true,"length_penalty":"x")", "length_penalty"},
        {R"("use_beam_search":true,"repetition_penalty":1.5)", "repetition_penalty"},
        {R"("use_beam_search":true,"logit_bias":{"65":1})", "logit_bias"},
    };
    for (const Case& one : cases) {
        for (const char* path : {"/v1/completions", "/v1/chat/completions"}) {
            const std::string body =
                std::string(R"({"prompt":"a","messages":[{"role":"user","content":"a"}],)") +
                one.fields + "}";
            const auto response = post(path, body);
            EXPECT_EQ(response.status, 400) << one.fields;
            EXPECT_EQ(Json::parse(response.body)["error"]["param"], one.param) << one.fields;
        }
    }
    std::string many = R"({"prompt":["a")";
    for (int i = 0; i < 15; ++i) many += R"(,"a")";
    EXPECT_EQ(post("/v1/completions", many + R"(],"n":65})").status, 400) << "1040 choices";
}

TEST_F(ApiTest, WhenTheClientGoesAllItsChoicesAreGivenBackAtOnce) {
    std::optional<FakeRequest> request;
    {
        auto c = client();
        c.request("POST", "/v1/completions", R"({"prompt":"a","n":3,"stream":true})");
        request = service_.next();
        ASSERT_TRUE(request);
        request->say("x", 1);
        request->finish_choice(1, FinishReason::stop);
    }
    EXPECT_EQ(service_.wait_ended(request->id), FinishReason::cancelled);
}

TEST_F(ApiTest, AnErrorEndsEveryChoice) {
    auto c = client();
    c.request("POST", "/v1/completions", R"({"prompt":"a","n":2})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->say("x", 1);
    request->finish_choice(1, FinishReason::length);
    request->finish(FinishReason::error, "worker w1 died");
    const auto response = c.read_response();
    EXPECT_EQ(response.status, 503);
    EXPECT_NE(response.body.find("worker w1 died"), std::string::npos);
}

}  // namespace
}  // namespace helix::api::choices_test
