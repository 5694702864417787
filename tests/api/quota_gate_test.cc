#include <gmock/gmock.h>

#include <atomic>
#include <string>

#include "api_fixture.h"
#include "base/temp_folder.h"
#include "net/private_file.h"

// The limits and the usage of keys, as clients and /metrics see them.

namespace helix::api::quota_gate_test {
namespace {

using core::FinishReason;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kAlice = "authorization: Bearer sesame\r\n";
constexpr const char* kBob = "authorization: Bearer mellon\r\n";

class QuotaTest : public ApiTest {
  protected:
    QuotaTest() {
        options_.clock = [this] { return base::TimePoint{now_ns_}; };
    }
    void start_with(const std::string& alices_limits) {
        const std::string path = folder_.path() + "/keys";
        const std::string text = "alice sesame " + alices_limits + "\nbob mellon\n";
        ASSERT_TRUE(net::replace_private(path, text).ok());
        options_.access.api_key_files = {path};
        start();
    }
    void pass_seconds(std::int64_t seconds) { now_ns_ += seconds * 1'000'000'000; }
    // Asks for the completion of "hey" and has it answered with "ab".
    net::TestClient::Response ask(const std::string& headers) {
        auto c = client();
        c.request("POST", "/v1/completions", R"({"prompt":"hey"})", headers);
        if (auto request = service_.next()) {
            request->route();
            request->say("ab");
            request->finish(FinishReason::stop);
        }
        return c.read_response();
    }
    // The same, where the service is not to see it.
    net::TestClient::Response refused(const std::string& headers) {
        return post("/v1/completions", R"({"prompt":"hey"})", headers);
    }

    TempFolder folder_;
    std::atomic<std::int64_t> now_ns_{1'000'000'000'000};
};

TEST_F(QuotaTest, AnswersTellWhatIsLeftAndWhatIsBeyondIsRefused) {
    start_with("requests_per_minute=2 tokens_per_minute=1000");
    const auto first = ask(kAlice);
    EXPECT_EQ(first.status, 200);
    EXPECT_EQ(first.header("x-ratelimit-limit-requests"), "2");
    EXPECT_EQ(first.header("x-ratelimit-remaining-requests"), "1");
    EXPECT_EQ(first.header("x-ratelimit-reset-requests"), "30s");
    EXPECT_EQ(first.header("x-ratelimit-limit-tokens"), "1000");
    EXPECT_EQ(first.header("x-ratelimit-remaining-tokens"), "1000");
    EXPECT_EQ(first.header("x-ratelimit-reset-tokens"), "0s");
    EXPECT_EQ(ask(kAlice).header("x-ratelimit-remaining-tokens"), "995") << "3 came and 2 went";
    const auto beyond = refused(kAlice);
    EXPECT_EQ(beyond.status, 429);
    EXPECT_EQ(beyond.header("retry-after"), "30");
    EXPECT_EQ(beyond.header("x-ratelimit-remaining-requests"), "0");
    EXPECT_EQ(beyond.header("x-ratelimit-reset-requests"), "60s");
    const Json error = Json::parse(beyond.body)["error"];
    EXPECT_EQ(error["code"], "rate_limit_exceeded");
    EXPECT_EQ(error["type"], "rate_limit_error");
    EXPECT_EQ(
        error["message"],
        "The key alice may use 2 requests a minute (requests_per_minute); try again in 30 s.");
    EXPECT_EQ(get("/v1/models", kAlice).status, 200) << "this computes nothing";
    const auto other = ask(kBob);
    EXPECT_EQ(other.status, 200);
    EXPECT_EQ(other.header("x-ratelimit-limit-requests"), "") << "bob has no limits";
    pass_seconds(30);
    EXPECT_EQ(ask(kAlice).status, 200);
}

TEST_F(QuotaTest, TokensAreCountedWhileTheyComeAndTheDebtIsWaitedFor) {
    start_with("tokens_per_minute=60");
    auto c = client();
    c.request("POST", "/v1/completions", R"({"prompt":"hey","stream":true})", kAlice);
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->route();
    request->say(std::string(67, 'x'));
    std::string chunk;
    c.read_head();
    ASSERT_TRUE(c.read_chunk(chunk));
    ASSERT_TRUE(metric_becomes("vllm:generation_tokens_total", "67"));
    const auto beyond = refused(kAlice);
    EXPECT_EQ(beyond.status, 429) << "the first is not over yet";
    EXPECT_THAT(beyond.body, HasSubstr("60 tokens a minute (tokens_per_minute)"));
    EXPECT_EQ(beyond.header("retry-after"), "11") << "70 of 60 are used, and one must be left";
    request->finish(FinishReason::stop);
    pass_seconds(11);
    EXPECT_EQ(ask(kAlice).status, 200);
}

TEST_F(QuotaTest, RequestsAtOnceAreCountedUntilTheyEndOrTheirClientLeaves) {
    start_with("concurrent_requests=2");
    auto first = client();
    first.request("POST", "/v1/completions", R"({"prompt":"hey"})", kAlice);
    auto answered = service_.next();
    ASSERT_TRUE(answered);
    auto second = client();
    second.request("POST", "/v1/completions", R"({"prompt":"hey"})", kAlice);
    auto left = service_.next();
    ASSERT_TRUE(left);
    EXPECT_THAT(refused(kAlice).body, HasSubstr("2 requests at once (concurrent_requests)"));
    answered->finish(FinishReason::stop);
    EXPECT_EQ(first.read_response().status, 200);
    EXPECT_EQ(ask(kAlice).status, 200);
    second.close();
    EXPECT_EQ(service_.wait_ended(left->id), FinishReason::cancelled);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(ask(kAlice).status, 200);
}

TEST_F(QuotaTest, EveryEndpointThatComputesCountsAndRefusesInItsProtocol) {
    start_with("requests_per_minute=1");
    ASSERT_EQ(ask(kAlice).status, 200);
    for (const char* path : {"/v1/chat/completions", "/v1/completions", "/v1/responses",
                             "/v1/messages", "/api/chat", "/api/generate"}) {
        const auto response = post(path, "{}", kAlice);
        EXPECT_EQ(response.status, 429) << path;
        EXPECT_EQ(response.header("retry-after"), "60") << path;
        EXPECT_THAT(response.body, HasSubstr("requests_per_minute")) << path;
    }
    EXPECT_EQ(Json::parse(post("/v1/messages", "{}", kAlice).body)["error"]["type"],
              "rate_limit_error");
}

TEST_F(QuotaTest, ARequestThatTheQueueRefusesHasUsedNoTokens) {
    start_with("tokens_per_minute=1000");
    core::RejectRequest full;
    full.reason = core::RejectReason::queue_full;
    service_.reject_all(full);
    EXPECT_EQ(refused(kAlice).status, 429);
    service_.reject_all({});
    EXPECT_EQ(ask(kAlice).status, 200);
    EXPECT_THAT(get("/metrics").body,
                HasSubstr("helix_key_prompt_tokens_total{model_name=\"byte-model\",engine=\"0\","
                          "key=\"alice\"} 3\n"));
}

TEST_F(QuotaTest, MetricsHaveTheUsageOfEachKeyByItsName) {
    start_with("requests_per_minute=2");
    EXPECT_EQ(ask(kAlice).status, 200);
    EXPECT_EQ(ask(kAlice).status, 200);
    EXPECT_EQ(refused(kAlice).status, 429);
    EXPECT_EQ(ask(kBob).status, 200);
    const std::string text = get("/metrics").body;
    EXPECT_THAT(text, Not(HasSubstr("sesame")));
    for (const char* sample : {"helix_key_requests_total{%key=\"alice\"} 2\n",
                               "helix_key_requests_total{%key=\"bob\"} 1\n",
                               "helix_key_requests_refused_total{%key=\"alice\"} 1\n",
                               "helix_key_requests_refused_total{%key=\"bob\"} 0\n",
                               "helix_key_prompt_tokens_total{%key=\"alice\"} 6\n",
                               "helix_key_output_tokens_total{%key=\"alice\"} 4\n",
                               "helix_key_output_tokens_total{%key=\"bob\"} 2\n"}) {
        std::string whole = sample;
        whole.replace(whole.find('%'), 1, "model_name=\"byte-model\",engine=\"0\",");
        EXPECT_THAT(text, HasSubstr(whole));
    }
}

}  // namespace
}  // namespace helix::api::quota_gate_test
