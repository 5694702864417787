#include "api_fixture.h"

namespace helix::api::stream_test {
namespace {

using core::FinishReason;

constexpr const char* kHello =
    R"({"model":"byte-model","stream":true,"messages":[{"role":"user","content":"Hi"}]})";
constexpr const char* kChunkHead =
    R"(data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":1234567890,"model":"byte-model","system_fingerprint":"fp_helix","choices":)";

// The one id of the stream, wherever it stands, becomes ID.
std::string without_id(std::string body) {
    const std::size_t at = body.find("cmpl-");
    if (at == std::string::npos) return body;
    const std::string id = body.substr(at + 5, 16);
    for (std::size_t i = body.find(id); i != std::string::npos; i = body.find(id, i)) {
        body.replace(i, id.size(), "ID");
    }
    return body;
}

TEST_F(ApiTest, AStreamHasExactlyTheBytesThatClientsExpect) {
    auto c = client();
    c.request("POST", "/v1/chat/completions", kHello);
    auto request = service_.next();
    ASSERT_TRUE(request);
    EXPECT_EQ(request->prompt(), "user:Hi\nassistant:");
    request->accept();
    request->route();
    request->say("A\"\n");
    request->token(kByteEnd);
    request->finish(FinishReason::stop);

    const auto response = c.read_response();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.header("content-type"), "text/event-stream");
    EXPECT_EQ(response.header("cache-control"), "no-cache");
    EXPECT_EQ(response.header("x-accel-buffering"), "no");
    EXPECT_EQ(response.header("content-length"), "");
    EXPECT_FALSE(response.header("x-request-id").empty());
    const std::string head = kChunkHead;
    const std::string tail = R"(,"logprobs":null,"finish_reason":null}]})"
                             "\n\n";
    EXPECT_EQ(without_id(response.body),
              head + R"([{"index":0,"delta":{"role":"assistant","content":""})" + tail +  //
                  head + R"([{"index":0,"delta":{"content":"A"})" + tail +                //
                  head + R"([{"index":0,"delta":{"content":"\""})" + tail +               //
                  head + R"([{"index":0,"delta":{"content":"\n"})" + tail +               //
                  head + R"([{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]})" +
                  "\n\ndata: [DONE]\n\n");
}

TEST_F(ApiTest, UsageComesOnlyOnRequestAndInAChunkWithoutChoices) {
    auto c = client();
    c.request("POST", "/v1/chat/completions",
              R"({"stream":true,"stream_options":{"include_usage":true},
                  "messages":[{"role":"user","content":"Hi"}]})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->say("ok");
    request->finish(FinishReason::length);
    const auto all = events(c.read_response().body);
    ASSERT_EQ(all.size(), 6U);
    for (std::size_t i = 0; i < 4; ++i) {
        const Json chunk = Json::parse(all[i]);
        EXPECT_TRUE(chunk.at("usage").is_null());
        EXPECT_EQ(chunk.at("choices").size(), 1U);
    }
    EXPECT_EQ(Json::parse(all[3])["choices"][0]["finish_reason"], "length");
    const Json usage = Json::parse(all[4]);
    EXPECT_EQ(usage.at("choices"), Json::array());
    EXPECT_EQ(usage["usage"]["prompt_tokens"], 18);
    EXPECT_EQ(usage["usage"]["completion_tokens"], 2);
    EXPECT_EQ(usage["usage"]["total_tokens"], 20);
    EXPECT_EQ(all[5], "[DONE]");
}

TEST_F(ApiTest, UsageInEveryChunkWhenAskedForContinuously) {
    auto c = client();
    c.request("POST", "/v1/completions",
              R"({"prompt":"abc","stream":true,
                  "stream_options":{"include_usage":true,"continuous_usage_stats":true}})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->say("xy");
    request->finish(FinishReason::length);
    const auto all = events(c.read_response().body);
    ASSERT_EQ(all.size(), 5U);
    EXPECT_EQ(Json::parse(all[0])["usage"]["completion_tokens"], 1);
    EXPECT_EQ(Json::parse(all[1])["usage"]["completion_tokens"], 2);
    EXPECT_EQ(Json::parse(all[3])["choices"], Json::array());
}

TEST_F(ApiTest, ContinuousUsageTellsOfTokensWithoutText) {
    auto c = client();
    c.request("POST", "/v1/completions",
              R"({"prompt":"abc","stream":true,
                  "stream_options":{"include_usage":true,"continuous_usage_stats":true}})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->say("\xC3\xA9");  // one character of two tokens
    request->finish(FinishReason::length);
    const auto all = events(c.read_response().body);
    ASSERT_EQ(all.size(), 5U);
    EXPECT_EQ(Json::parse(all[0])["choices"][0]["text"], "");
    EXPECT_EQ(Json::parse(all[0])["usage"]["completion_tokens"], 1);
    EXPECT_EQ(Json::parse(all[1])["choices"][0]["text"], "\xC3\xA9");
    EXPECT_EQ(Json::parse(all[1])["usage"]["completion_tokens"], 2);
}

TEST_F(ApiTest, HeadersGoOutWhenTheServiceAcceptsAndNotBefore) {
    auto c = client();
    c.request("POST", "/v1/chat/completions", kHello);
    auto request = service_.next();
    ASSERT_TRUE(request);
    core::RejectRequest rejection;
    rejection.reason = core::RejectReason::queue_full;
    rejection.message = "1024 requests are waiting";
    rejection.retry_after_s = 3;
    request->sink->on_reject(rejection);
    const auto refused = c.read_response();
    EXPECT_EQ(refused.status, 429);
    EXPECT_EQ(refused.header("retry-after"), "3");
    const Json error = Json::parse(refused.body)["error"];
    EXPECT_EQ(error["message"], "1024 requests are waiting");
    EXPECT_EQ(error["code"], "rate_limit_exceeded");

    c.request("POST", "/v1/chat/completions", kHello);
    auto queued = service_.next();
    ASSERT_TRUE(queued);
    queued->accept();  // it is queued: no token, no route
    EXPECT_EQ(c.read_head().status, 200);
}

TEST_F(ApiTest, AStreamWithoutTokensStillHasARoleAndAFinishReason) {
    auto c = client();
    c.request("POST", "/v1/chat/completions", kHello);
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->token(kByteEnd);
    request->finish(FinishReason::stop);
    const auto all = events(c.read_response().body);
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(Json::parse(all[0])["choices"][0]["delta"]["role"], "assistant");
    EXPECT_EQ(Json::parse(all[1])["choices"][0]["finish_reason"], "stop");
}

TEST_F(ApiTest, NoChunkHoldsHalfACharacter) {
    const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z";
    auto c = client();
    c.request("POST", "/v1/chat/completions", kHello);
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->say(text);
    request->finish(FinishReason::length);
    std::string joined;
    for (const std::string& event : events(c.read_response().body)) {
        if (event == "[DONE]") continue;
        joined += Json::parse(event)["choices"][0]["delta"].value("content", "");
        EXPECT_EQ(joined.find("\xEF\xBF\xBD"), std::string::npos);
    }
    EXPECT_EQ(joined, text);
}

TEST_F(ApiTest, AStopStringEndsTheAnswerBeforeItAndGivesTheRequestBack) {
    auto c = client();
    c.request("POST", "/v1/chat/completions",
              R"({"stream":true,"stop":["END","never"],"messages":[{"role":"user","content":"Hi"}],
                  "stream_options":{"include_usage":true}})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->say("an E EN ENDless");
    EXPECT_EQ(service_.wait_ended(request->id), FinishReason::stop);
    const auto all = events(c.read_response().body);
    std::string joined;
    std::string reason;
    for (const std::string& event : all) {
        if (event == "[DONE]") continue;
        const Json chunk = Json::parse(event);
        if (chunk["choices"].empty()) {
            EXPECT_EQ(chunk["usage"]["completion_tokens"], 11);
            continue;
        }
        joined += chunk["choices"][0]["delta"].value("content", "");
        if (chunk["choices"][0]["finish_reason"].is_string()) {
            reason = chunk["choices"][0]["finish_reason"].get<std::string>();
        }
    }
    EXPECT_EQ(joined, "an E EN ");
    EXPECT_EQ(reason, "stop");
    EXPECT_EQ(all.back(), "[DONE]");
}

TEST_F(ApiTest, AnErrorMidStreamIsAnEventAndNotASilentEnd) {
    auto c = client();
    c.request("POST", "/v1/chat/completions", kHello);
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->say("ab");
    request->finish(FinishReason::error, "worker 2 was lost");
    const auto response = c.read_response();
    EXPECT_TRUE(response.complete);
    const auto all = events(response.body);
    const Json error = Json::parse(all.back()).at("error");
    EXPECT_EQ(error["message"], "worker 2 was lost");
    EXPECT_EQ(error["type"], "unavailable_error");
    EXPECT_TRUE(error.contains("param"));
    EXPECT_TRUE(error["code"].is_string());
    EXPECT_EQ(response.body.find("[DONE]"), std::string::npos);
}

TEST_F(ApiTest, OnlyDataLinesAndCommentsAndLfAreSent) {
    options_.ping_interval = base::from_ms(20);
    auto c = client();
    c.request("POST", "/v1/chat/completions", kHello);
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->accept();
    c.read_head();
    std::string body;
    std::string chunk;
    while (body.find(": ping\n\n") == std::string::npos) {
        ASSERT_TRUE(c.read_chunk(chunk));
        body += chunk;
    }
    request->say("x");
    request->finish(FinishReason::stop);
    while (c.read_chunk(chunk) && !chunk.empty()) body += chunk;
    EXPECT_EQ(body.find('\r'), std::string::npos);
    std::string_view rest = body;
    while (!rest.empty()) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        EXPECT_TRUE(line.empty() || line == ": ping" || line.starts_with("data: ")) << line;
        rest.remove_prefix(line.size() + 1);
    }
    EXPECT_TRUE(body.ends_with("data: [DONE]\n\n"));
}

TEST_F(ApiTest, AClientThatLeavesEndsItsRequestAtOnce) {
    auto c = client();
    c.request("POST", "/v1/chat/completions", kHello);
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->say("a");
    std::string chunk;
    c.read_head();
    ASSERT_TRUE(c.read_chunk(chunk));
    c.close();
    EXPECT_EQ(service_.wait_ended(request->id), FinishReason::cancelled);
    request->say("late");  // what was under way is ignored
    request->finish(FinishReason::cancelled);
    EXPECT_EQ(get("/health").status, 200);
}

TEST_F(ApiTest, AClientThatLeavesWithoutStreamingEndsItsRequestToo) {
    auto c = client();
    c.request("POST", "/v1/chat/completions", R"({"messages":[{"role":"user","content":"Hi"}]})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    c.close();
    EXPECT_EQ(service_.wait_ended(request->id), FinishReason::cancelled);
}

TEST_F(ApiTest, AReaderThatIsTooSlowLosesItsRequestNotTheServersMemory) {
    options_.http.max_queued_bytes = 20000;
    options_.http.send_buffer_bytes = 4096;
    start();
    net::TestClient slow(server_->port(), 4096);
    slow.request("POST", "/v1/chat/completions", kHello);
    auto request = service_.next();
    ASSERT_TRUE(request);
    for (int i = 0; i < 20000 && !service_.was_ended(request->id); ++i) request->say("x");
    EXPECT_EQ(service_.wait_ended(request->id), FinishReason::cancelled);
    EXPECT_EQ(get("/health").status, 200);
}

TEST_F(ApiTest, StreamLogprobsComeWithTheirTokens) {
    auto c = client();
    c.request("POST", "/v1/chat/completions",
              R"({"stream":true,"logprobs":true,"top_logprobs":2,
                  "messages":[{"role":"user","content":"Hi"}]})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    EXPECT_EQ(request->request.sampling.n_logprobs, 2);
    request->say("\xC3\xA9!");
    request->finish(FinishReason::length);
    const auto all = events(c.read_response().body);
    std::vector<std::size_t> sizes;
    for (const std::string& event : all) {
        if (event == "[DONE]") continue;
        const Json logprobs = Json::parse(event)["choices"][0]["logprobs"];
        if (logprobs.is_null()) continue;
        sizes.push_back(logprobs["content"].size());
        EXPECT_TRUE(logprobs["refusal"].is_null());
        const Json& token = logprobs["content"][0];
        EXPECT_EQ(token["logprob"], -0.5);
        EXPECT_EQ(token["bytes"].size(), 1U);
        EXPECT_EQ(token["top_logprobs"].size(), 2U);
    }
    EXPECT_EQ(sizes, (std::vector<std::size_t>{2, 1}));
}

TEST_F(ApiTest, TwoHundredStreamsAtOnceEachGetTheirOwnText) {
    start();
    constexpr int kStreams = 200;
    std::vector<std::unique_ptr<net::TestClient>> clients;
    std::vector<FakeRequest> requests;
    for (int i = 0; i < kStreams; ++i) {
        clients.push_back(std::make_unique<net::TestClient>(server_->port()));
        ASSERT_TRUE(clients.back()->connected());
        clients.back()->request(
            "POST", "/v1/completions",
            R"({"stream":true,"max_tokens":50,"prompt":"p)" + std::to_string(i) + R"("})");
        auto request = service_.next();
        ASSERT_TRUE(request);
        requests.push_back(*request);
    }
    for (int round = 0; round < 20; ++round) {
        for (FakeRequest& request : requests) request.say(request.prompt().substr(1) + ",");
    }
    for (FakeRequest& request : requests) request.finish(FinishReason::length);
    for (int i = 0; i < kStreams; ++i) {
        std::string joined;
        const auto response = clients[static_cast<std::size_t>(i)]->read_response();
        for (const std::string& event : events(response.body)) {
            if (event != "[DONE]") joined += Json::parse(event)["choices"][0].value("text", "");
        }
        std::string expected;
        for (int round = 0; round < 20; ++round) expected += std::to_string(i) + ",";
        ASSERT_EQ(joined, expected);
        ASSERT_TRUE(response.body.ends_with("data: [DONE]\n\n"));
    }
}

}  // namespace
}  // namespace helix::api::stream_test
