// Requests whose preparation is long, or more than the server has room for.

#include <gmock/gmock.h>

#include "api/preparation.h"
#include "api_fixture.h"
#include "gate_codec.h"

namespace helix::api::preparation_test {
namespace {

using core::FinishReason;
using ::testing::HasSubstr;
using ::testing::Not;

class PreparationTest : public ApiTest {
  protected:
    PreparationTest() {
        options_.limits.prepare_threads = 2;
        model_.context_length = 1'000'000;
    }
    ~PreparationTest() override {
        gate_->open();
        server_.reset();
    }
    std::unique_ptr<const TextCodec> make_codec() override {
        return std::make_unique<GateCodec>(gate_);
    }
    // The prompt is large, so that the job is none of those that go before others.
    static std::string waits() { return plain("wait" + std::string(100'000, 'w')); }
    static std::string plain(const std::string& prompt, Json more = Json::object()) {
        Json body = {{"prompt", prompt}};
        body.update(more);
        return body.dump();
    }

    std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
};

TEST_F(PreparationTest, HealthStreamsAndSmallRequestsGoOnWhileALongOneIsPrepared) {
    auto streaming = client();
    streaming.request("POST", "/v1/completions", plain("stream", {{"stream", true}}));
    auto stream = service_.next();
    ASSERT_TRUE(stream);
    stream->accept();
    EXPECT_EQ(streaming.read_head().status, 200);

    auto long_one = client();
    long_one.request("POST", "/v1/completions", waits());
    auto behind_it = client();
    behind_it.request("POST", "/v1/completions", waits());
    ASSERT_TRUE(gate_->wait_for(1));

    EXPECT_EQ(get("/health").status, 200);
    stream->say("a");
    std::string chunk;
    ASSERT_TRUE(streaming.read_chunk(chunk));
    EXPECT_THAT(chunk, HasSubstr("\"text\":\"a\""));
    auto small = client();
    small.request("POST", "/v1/completions", plain("small"));
    auto next = service_.next();
    ASSERT_TRUE(next);
    EXPECT_EQ(next->prompt(), "small");
    EXPECT_EQ(Json::parse(post("/tokenize", R"({"content":"ab"})").body)["count"], 2);
    EXPECT_EQ(metric("helix_requests_preparing"), "2");

    gate_->open();
    for (int i = 0; i < 2; ++i) {
        auto prepared = service_.next();
        ASSERT_TRUE(prepared);
        EXPECT_EQ(prepared->request.prompt.size(), 100'004U);
        prepared->finish(FinishReason::stop);
    }
    EXPECT_EQ(long_one.read_response().status, 200);
    EXPECT_EQ(behind_it.read_response().status, 200);
}

TEST_F(PreparationTest, AClientThatLeavesBeforeItsRequestIsPreparedLeavesNoWork) {
    auto first = client();
    first.request("POST", "/v1/completions", waits());
    ASSERT_TRUE(gate_->wait_for(1));
    auto second = client();
    second.request("POST", "/v1/completions", waits());
    ASSERT_TRUE(metric_becomes("helix_requests_preparing", "2"));
    second.close();
    ASSERT_TRUE(metric_becomes("helix_requests_preparing", "1"));
    EXPECT_TRUE(metric_becomes("helix_requests_held", "1"));
    first.close();
    ASSERT_TRUE(metric_becomes("helix_requests_preparing", "0"));
    gate_->open();
    EXPECT_TRUE(metric_becomes("helix_requests_held", "0"));
    EXPECT_EQ(metric("helix_request_bytes"), "0");
    EXPECT_EQ(gate_->came(), 1) << "the second was prepared for nobody";
    auto third = client();
    third.request("POST", "/v1/completions", plain("third"));
    auto request = service_.next();
    ASSERT_TRUE(request);
    EXPECT_EQ(request->prompt(), "third") << "nobody waited for the first any more";
}

TEST_F(PreparationTest, WhenTooManyWaitToBeReadTheNextIsToldTheLimit) {
    options_.limits.max_preparing = 1;
    auto running = client();
    running.request("POST", "/v1/completions", waits());
    ASSERT_TRUE(gate_->wait_for(1));
    auto waiting = client();
    waiting.request("POST", "/v1/completions", waits());
    ASSERT_TRUE(metric_becomes("helix_requests_preparing", "2"));
    const auto refused = post("/v1/completions", waits());
    EXPECT_EQ(refused.status, 429);
    EXPECT_THAT(refused.body, HasSubstr("max_preparing"));
    EXPECT_EQ(refused.header("retry-after"), "1");
}

TEST_F(PreparationTest, AServerThatStopsAnswersThoseThatAreStillPrepared) {
    auto waiting = client();
    waiting.request("POST", "/v1/completions", waits());
    ASSERT_TRUE(gate_->wait_for(1));
    std::thread stopping([&] { server_->stop(base::from_ms(50)); });
    const auto response = waiting.read_response();
    EXPECT_EQ(response.status, 503);
    EXPECT_THAT(response.body, HasSubstr("shutting down"));
    gate_->open();
    stopping.join();
}

TEST_F(PreparationTest, ARequestWithoutMemorySaysSoAndEverythingElseGoesOn) {
    for (const char* prompt : {"memory", "length"}) {
        const auto response = post("/v1/completions", plain(prompt));
        EXPECT_EQ(response.status, 503);
        EXPECT_THAT(response.body, HasSubstr("not enough memory"));
    }
    const auto broken = post("/v1/completions", plain("break"));
    EXPECT_EQ(broken.status, 500);
    EXPECT_THAT(broken.body, Not(HasSubstr("/secret")));
    auto c = client();
    c.request("POST", "/v1/completions", plain("fine"));
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->finish(FinishReason::stop);
    EXPECT_EQ(c.read_response().status, 200);
    EXPECT_TRUE(metric_becomes("helix_requests_held", "0"));
}

TEST_F(PreparationTest, WhatRequestsHoldTogetherIsBoundedAndGivenBack) {
    options_.limits.max_request_bytes = 140'000;
    const std::string body = plain(std::string(20'000, 'x'));
    auto first = client();
    first.request("POST", "/v1/completions", body);
    auto request = service_.next();
    ASSERT_TRUE(request);
    EXPECT_GT(std::stoi(metric("helix_request_bytes")), 80'000) << "four bytes for each token";
    const auto refused = post("/v1/completions", body);
    EXPECT_EQ(refused.status, 429);
    EXPECT_THAT(refused.body, HasSubstr("max_request_bytes"));
    const auto alone = post("/v1/completions", plain(std::string(120'000, 'x')));
    EXPECT_EQ(alone.status, 413);
    EXPECT_THAT(alone.body, HasSubstr("max_request_bytes"));
    request->finish(FinishReason::stop);
    EXPECT_EQ(first.read_response().status, 200);
    EXPECT_TRUE(metric_becomes("helix_request_bytes", "0"));
    auto again = client();
    again.request("POST", "/v1/completions", body);
    EXPECT_TRUE(service_.next());
}

TEST_F(PreparationTest, RequestsThatAreNotOverAreCounted) {
    options_.limits.max_requests = 1;
    auto first = client();
    first.request("POST", "/v1/completions", plain("a"));
    auto request = service_.next();
    ASSERT_TRUE(request);
    const auto refused = post("/v1/completions", plain("b"));
    EXPECT_EQ(refused.status, 429);
    EXPECT_THAT(refused.body, HasSubstr("max_requests"));
}

TEST_F(PreparationTest, WhatParsingTakesIsKnownBeforeItIsParsed) {
    RequestLimits limits;
    std::int64_t bytes = 0;
    const std::string text = R"({"a":[1, -2.5e3,true,null,"x,y:[\"]"],"b":{}})";
    ASSERT_FALSE(measure_json(text, limits, bytes));
    // Ten values: the object, two names, the array with five values, and the empty object.
    EXPECT_EQ(bytes, 10 * 96 + static_cast<std::int64_t>(text.size()));
    limits.max_json_values = 8;
    const auto error = measure_json(text, limits, bytes);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->status, 400);
    EXPECT_THAT(error->message, HasSubstr("max_json_values"));
}

TEST_F(PreparationTest, ABodyOfManySmallValuesIsRefusedBeforeItIsParsed) {
    options_.request_limits.max_json_values = 1000;
    std::string many = R"({"prompt":"x","ignored":[)";
    for (int i = 0; i < 1000; ++i) many += "[],";
    const auto response = post("/v1/completions", many + "[]]}");
    EXPECT_EQ(response.status, 400);
    EXPECT_THAT(response.body, HasSubstr("max_json_values"));
}

// ---- answers that are kept until they are whole

TEST_F(PreparationTest, ALongAnswerReachesItsClientWholeAndInPieces) {
    options_.http.max_queued_bytes = 100'000;
    options_.http.send_buffer_bytes = 4096;
    auto c = client();
    c.request("POST", "/v1/completions", plain("x", {{"max_tokens", 3}, {"logprobs", 1}}));
    auto request = service_.next();
    ASSERT_TRUE(request);
    for (int i = 0; i < 10'000; ++i) request->token('a' + i % 26);
    request->finish(FinishReason::length);
    const auto response = c.read_response();
    EXPECT_EQ(response.status, 200);
    ASSERT_TRUE(response.complete);
    EXPECT_GT(response.body.size(), 200'000U) << "or it is no long answer";
    const Json choice = Json::parse(response.body)["choices"][0];
    EXPECT_EQ(choice["text"].get<std::string>().size(), 10'000U);
    EXPECT_EQ(choice["logprobs"]["tokens"].size(), 10'000U);
    EXPECT_EQ(choice["logprobs"]["text_offset"][9999], 9999);
    EXPECT_TRUE(metric_becomes("helix_requests_held", "0"));
    // The connection serves on.
    c.request("GET", "/health");
    EXPECT_EQ(c.read_response().status, 200);
}

TEST_F(PreparationTest, ALongAnswerThatNobodyReadsIsHeldByItsRequestUntilTheClientIsGone) {
    options_.http.max_queued_bytes = 100'000;
    options_.http.send_buffer_bytes = 4096;
    start();
    net::TestClient c(server_->port(), 4096);
    c.request("POST", "/v1/completions", plain("x", {{"max_tokens", 3}, {"logprobs", 1}}));
    auto request = service_.next();
    ASSERT_TRUE(request);
    for (int i = 0; i < 20'000; ++i) request->token('a');
    request->finish(FinishReason::length);
    EXPECT_EQ(c.read_head().status, 200);
    EXPECT_EQ(metric("helix_requests_held"), "1") << "it is counted while it waits for its client";
    c.close();
    EXPECT_TRUE(metric_becomes("helix_requests_held", "0"));
}

TEST_F(PreparationTest, AnAnswerThatGrowsTooLongToBeKeptEndsWithAnErrorThatSaysSo) {
    options_.request_limits.max_answer_bytes = 10'000;
    auto c = client();
    c.request("POST", "/v1/completions", plain("x", {{"n", 2}}));
    auto request = service_.next();
    ASSERT_TRUE(request);
    for (int i = 0; i < 6000 && !service_.was_ended(request->id); ++i) {
        request->say("a", 0);
        request->say("b", 1);
    }
    EXPECT_EQ(service_.wait_ended(request->id), FinishReason::cancelled);
    const auto response = c.read_response();
    EXPECT_EQ(response.status, 413);
    EXPECT_THAT(response.body, HasSubstr("max_answer_bytes"));
    EXPECT_TRUE(metric_becomes("helix_requests_held", "0"));
}

TEST_F(PreparationTest, EventsThatWaitForOtherPromptsAreBoundedToo) {
    options_.request_limits.max_answer_bytes = 10'000;
    auto c = client();
    c.request("POST", "/v1/completions", R"({"prompt":["a","b"],"stream":true,"max_tokens":1000})");
    auto first = service_.next();
    auto second = service_.next();  // which the service never accepts
    ASSERT_TRUE(first && second);
    for (int i = 0; i < 1000 && !service_.was_ended(first->id); ++i) first->say("x");
    EXPECT_EQ(service_.wait_ended(first->id), FinishReason::cancelled);
    EXPECT_EQ(service_.wait_ended(second->id), FinishReason::cancelled);
    const auto response = c.read_response();
    EXPECT_EQ(response.status, 413);
    EXPECT_THAT(response.body, HasSubstr("max_answer_bytes"));
}

TEST_F(PreparationTest, AReaderThatIsTooSlowIsNamedAsTheReasonInTheLogOfRequests) {
    options_.http.max_queued_bytes = 20'000;
    options_.http.send_buffer_bytes = 4096;
    start();
    net::TestClient slow(server_->port(), 4096);
    slow.request("POST", "/v1/completions", plain("x", {{"stream", true}}));
    auto request = service_.next();
    ASSERT_TRUE(request);
    for (int i = 0; i < 20'000 && !service_.was_ended(request->id); ++i) request->say("x");
    EXPECT_EQ(service_.wait_ended(request->id), FinishReason::cancelled);
    const Json requests = Json::parse(get("/helix/cluster").body)["requests"];
    ASSERT_EQ(requests.size(), 1U);
    EXPECT_EQ(requests[0]["state"], "abort");
    EXPECT_EQ(requests[0]["reason"], "the client reads too slowly");
}

}  // namespace
}  // namespace helix::api::preparation_test
