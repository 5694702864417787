#include "lab/load/load_run.h"

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include <nlohmann/json.hpp>

#include "api/api_server.h"
#include "api/timed_service.h"
#include "lab/load/load_report.h"
#include "net/http_server.h"

namespace helix::lab::load_run_test {
namespace {

using std::chrono::milliseconds;

// A service that takes a number of requests and refuses the rest.
class PickyService final : public api::Service {
  public:
    explicit PickyService(int takes) : inner_(milliseconds(2), "abc"), left_(takes) {}
    core::RequestId submit(core::Request request, std::shared_ptr<api::TokenSink> sink) override {
        if (left_-- > 0) return inner_.submit(std::move(request), std::move(sink));
        core::RejectRequest rejection;
        rejection.reason = core::RejectReason::queue_full;
        rejection.message = "too many requests are waiting";
        sink->on_reject(rejection);
        return core::RequestId{999'999};
    }
    void end(core::RequestId id, core::FinishReason reason) override { inner_.end(id, reason); }
    void end_choice(core::RequestId id, std::int32_t choice, core::FinishReason reason) override {
        inner_.end_choice(id, choice, reason);
    }
    core::ClusterView view() override { return inner_.view(); }

  private:
    api::TimedService inner_;
    int left_;
};

// A server on the loopback whose model says a byte each `interval`.
class LoadRunTest : public ::testing::Test {
  protected:
    void start(std::unique_ptr<api::Service> service) {
        service_ = std::move(service);
        auto server = api::ApiServer::start(options_, api::byte_model(*service_));
        ASSERT_TRUE(server.ok()) << server.error().message;
        server_ = std::move(server).value();
        target_.url = "http://127.0.0.1:" + std::to_string(server_->port()) + "/v1";
    }
    void start_timed(milliseconds interval) {
        start(std::make_unique<api::TimedService>(interval, "abc \xC3\xA9"));
    }
    void connect() {
        auto client = ApiClient::connect(target_);
        ASSERT_TRUE(client.ok()) << client.error().message;
        client_ = std::move(client).value();
    }
    LoadResult run(const LoadPlan& plan) {
        return run_load(*client_, plan, interrupted_, [](const LoadProgress&) {});
    }
    static LoadPlan closed(std::int32_t concurrency, std::size_t count, LengthRange output) {
        LoadPlan plan;
        plan.concurrency = concurrency;
        plan.count = count;
        plan.duration_s = 1e9;
        plan.lengths = LengthSource({10, 30}, output);
        return plan;
    }

    api::ApiOptions options_;
    std::unique_ptr<api::Service> service_;
    std::unique_ptr<api::ApiServer> server_;
    ApiTarget target_;
    std::unique_ptr<ApiClient> client_;
    std::atomic<bool> interrupted_{false};
};

TEST_F(LoadRunTest, LengthsAreExactAndTimesAreTheServers) {
    start_timed(milliseconds(5));
    connect();
    EXPECT_EQ(client_->model(), "byte-model");
    EXPECT_EQ(client_->context_length(), api::TimedService::kContext);
    const LoadResult result = run(closed(4, 12, {8, 20}));
    ASSERT_EQ(result.requests.size(), 12U);
    std::size_t tokens = 0;
    for (const RequestRecord& request : result.requests) {
        ASSERT_FALSE(request.failure) << request.failure->kind << request.failure->message;
        EXPECT_EQ(request.prompt_tokens, request.asked.prompt_tokens);
        EXPECT_EQ(request.output_tokens, request.asked.output_tokens);
        tokens += static_cast<std::size_t>(request.output_tokens);
    }
    EXPECT_EQ(result.tokens.size(), tokens);
    const LoadReport report = make_report(result, {0, result.seconds}, {});
    EXPECT_EQ(report.counted, 12U);
    EXPECT_EQ(report.wrong_length, 0U);
    EXPECT_EQ(report.tpot.count, tokens - 12);
    // Never faster than the model; a busy machine may be slower.
    EXPECT_GE(report.ttft.p50, 0.0049);
    EXPECT_GE(report.tpot_per_request.mean, 0.0045);
    EXPECT_LT(report.tpot_per_request.p50, 0.05);
}

TEST_F(LoadRunTest, AClosedLoopNeverHasMoreUnderWayThanClients) {
    start_timed(milliseconds(1));
    connect();
    const LoadResult result = run(closed(3, 20, {5, 9}));
    for (const RequestRecord& a : result.requests) {
        int at_once = 0;
        for (const RequestRecord& b : result.requests) {
            if (b.sent_s <= a.sent_s && a.sent_s < b.end_s) ++at_once;
        }
        EXPECT_LE(at_once, 3);
    }
}

TEST_F(LoadRunTest, AnOpenLoopSendsWhenDueWhateverIsUnderWay) {
    start_timed(milliseconds(20));
    connect();
    LoadPlan plan;
    plan.arrivals = draw_load({100, 0}, LengthSource({8, 8}, {10, 10}), 20, 1e9, 1);
    const LoadResult result = run(plan);
    ASSERT_EQ(result.requests.size(), 20U);
    // Each request takes 0.2 s, and one comes every 10 ms.
    std::size_t under_way = 0;
    for (const RequestRecord& request : result.requests) {
        EXPECT_GE(request.sent_s, request.scheduled_s);
        if (request.end_s > result.requests.back().sent_s) ++under_way;
    }
    EXPECT_GT(under_way, 10U);
    EXPECT_EQ(result.requests[7].scheduled_s, plan.arrivals[7].arrival_s);
}

TEST_F(LoadRunTest, RefusalsAreCountedByKindWithTheirWords) {
    start(std::make_unique<PickyService>(1 + 3));  // the first is the client's own question
    connect();
    const LoadResult result = run(closed(1, 8, {4, 4}));
    const LoadReport report = make_report(result, {0, result.seconds}, {});
    EXPECT_EQ(report.failed, 5U);
    ASSERT_EQ(report.failures.count("http 429"), 1U);
    EXPECT_EQ(report.failures.at("http 429").count, 5U);
    EXPECT_EQ(report.failures.at("http 429").example, "too many requests are waiting");
    EXPECT_EQ(report.ttft.count, 3U);
}

TEST_F(LoadRunTest, ARequestOverItsLimitIsATimeout) {
    start_timed(milliseconds(10));
    connect();
    target_.limit = milliseconds(100);
    connect();
    const LoadResult result = run(closed(1, 1, {1000, 1000}));
    ASSERT_TRUE(result.requests[0].failure);
    EXPECT_EQ(result.requests[0].failure->kind, "timeout");
    EXPECT_GT(result.requests[0].output_tokens, 0);
}

TEST_F(LoadRunTest, AnInterruptedRunEndsAtOnceAndSaysWhatWasUnderWay) {
    start_timed(milliseconds(10));
    connect();
    std::thread user([this] {
        std::this_thread::sleep_for(milliseconds(150));
        interrupted_ = true;
        client_->http().wake();
    });
    const LoadResult result = run(closed(2, 100, {3000, 3000}));
    user.join();
    EXPECT_TRUE(result.interrupted);
    EXPECT_LT(result.seconds, 10);
    ASSERT_EQ(result.requests.size(), 2U);
    EXPECT_EQ(result.requests[1].failure->kind, "unfinished");
}

TEST_F(LoadRunTest, AServerThatGoesAwayEndsTheStreamAndThenNoConnection) {
    start_timed(milliseconds(10));
    connect();
    std::thread admin([this] {
        std::this_thread::sleep_for(milliseconds(150));
        server_.reset();
    });
    const LoadResult result = run(closed(1, 3, {3000, 3000}));
    admin.join();
    // The error says so, unless the server has no time to.
    const std::string& kind = result.requests[0].failure->kind;
    EXPECT_TRUE(kind == "stream error" || kind == "cut off") << kind;
    // While the server ends it says so.
    for (std::size_t i = 1; i < result.requests.size(); ++i) {
        ASSERT_TRUE(result.requests[i].failure) << i;
        const std::string& next = result.requests[i].failure->kind;
        EXPECT_TRUE(next == "http 503" || next == "cut off" || next == "connect") << next;
    }
    const LoadResult after = run(closed(1, 1, {3000}));
    ASSERT_TRUE(after.requests[0].failure);
    EXPECT_EQ(after.requests[0].failure->kind, "connect");
}

TEST_F(LoadRunTest, ConnectSaysWhatIsWrong) {
    options_.api_keys = {"secret"};
    start_timed(milliseconds(1));
    const auto locked = ApiClient::connect(target_);
    ASSERT_FALSE(locked.ok());
    EXPECT_NE(locked.error().message.find("401"), std::string::npos) << locked.error().message;
    EXPECT_NE(locked.error().message.find("--api-key"), std::string::npos);
    target_.api_key = "secret";
    EXPECT_TRUE(ApiClient::connect(target_).ok());
    target_.model = "other";
    const auto other = ApiClient::connect(target_);
    ASSERT_FALSE(other.ok());
    EXPECT_NE(other.error().message.find("byte-model"), std::string::npos);
    target_.model = "";
    target_.endpoint = LoadEndpoint::chat;  // every word is several tokens of a byte model
    const auto chat = ApiClient::connect(target_);
    ASSERT_FALSE(chat.ok());
    EXPECT_NE(chat.error().message.find("--endpoint completions"), std::string::npos);
    server_.reset();
    const auto nobody = ApiClient::connect(target_);
    ASSERT_FALSE(nobody.ok());
    EXPECT_NE(nobody.error().message.find("is a server running there?"), std::string::npos);
}

// A server whose /tokenize takes the text under one name only, as llama-server does. It keeps the
// ids of the prompts that it is asked with.
class StubTokenizer {
  public:
    StubTokenizer() {
        auto server = net::HttpServer::listen({});
        EXPECT_TRUE(server.ok());
        server_ = std::move(server).value();
        server_->start(
            [this](const std::shared_ptr<net::HttpExchange>& exchange) { answer(exchange); });
    }
    std::string url() const { return "http://127.0.0.1:" + std::to_string(server_->port()); }
    std::set<std::int32_t> prompt_ids() {
        const std::lock_guard lock(mutex_);
        return prompt_ids_;
    }

  private:
    using Json = nlohmann::json;
    Json answer_to(const net::HttpRequest& request) {
        if (request.path == "/v1/models") return {{"data", {{{"id", "stub"}}}}};
        const Json body = Json::parse(request.body);
        if (request.path == "/tokenize") {
            Json ids = Json::array();
            if (body.contains("content")) ids = {70'001, 70'002, 70'003};
            return {{"tokens", ids}};
        }
        const Json& prompt = body.at("prompt");
        const std::lock_guard lock(mutex_);
        for (const Json& id : prompt) prompt_ids_.insert(id.get<std::int32_t>());
        return {{"usage", {{"prompt_tokens", prompt.size()}}}};
    }
    void answer(const std::shared_ptr<net::HttpExchange>& exchange) {
        net::HttpResponse response;
        response.body = answer_to(exchange->request()).dump();
        exchange->respond(std::move(response));
    }

    std::mutex mutex_;
    std::set<std::int32_t> prompt_ids_;
    std::unique_ptr<net::HttpServer> server_;
};

TEST(ApiClient, PromptsAreOfTheTextsIdsWhereItIsCalledContent) {
    StubTokenizer stub;
    ApiTarget target;
    target.url = stub.url();
    const auto client = ApiClient::connect(target);
    ASSERT_TRUE(client.ok()) << client.error().message;
    const std::set<std::int32_t> ids = stub.prompt_ids();
    EXPECT_FALSE(ids.empty());
    for (const std::int32_t id : ids) EXPECT_TRUE(id >= 70'001 && id <= 70'003) << id;
}

RequestRecord record(double scheduled_s, double first_s, double last_s, std::int32_t tokens) {
    RequestRecord request;
    request.scheduled_s = scheduled_s;
    request.sent_s = scheduled_s + 1;
    request.first_s = first_s;
    request.last_s = last_s;
    request.end_s = last_s;
    request.asked = {scheduled_s, 100, tokens};
    request.prompt_tokens = 100;
    request.output_tokens = tokens;
    return request;
}

TEST(LoadReport, CountsRequestsDueInTheWindowFromWhenTheyWereDue) {
    LoadResult result;
    result.requests = {record(0, 2, 6, 5), record(10, 13, 17, 5), record(12, 13, 33, 11)};
    RequestRecord failed = record(14, -1, -1, 0);
    failed.failure = StreamFailure{"http 503", "no"};
    result.requests.push_back(failed);
    for (const float at : {2.0F, 13.0F, 14.0F, 33.0F}) {
        result.tokens.push_back({at, at == 13.0F ? TokenArrival::kFirst : 0.5F});
    }
    const LoadReport report = make_report(result, {10, 20}, {.ttft_s = 2.0, .tpot_s = 5.0});
    EXPECT_EQ(report.counted, 3U);
    EXPECT_EQ(report.failed, 1U);
    EXPECT_DOUBLE_EQ(report.ttft.mean, 2.0);  // 3 and 1, not from when they were sent
    EXPECT_DOUBLE_EQ(report.send_delay.mean, 1.0);
    EXPECT_DOUBLE_EQ(report.tpot_per_request.mean, 1.5);  // 1 and 2
    EXPECT_DOUBLE_EQ(report.latency.most, 21.0);
    EXPECT_DOUBLE_EQ(report.output_tokens_per_s, 0.2);
    EXPECT_DOUBLE_EQ(report.decode_tokens_per_s, 0.1);
    EXPECT_DOUBLE_EQ(report.prompt_tokens_per_s, 20.0);
    EXPECT_DOUBLE_EQ(report.requests_per_s, 0.1);  // the second; the third ends later
    EXPECT_EQ(report.within_goal, 1U);
    EXPECT_DOUBLE_EQ(report.goodput_per_s, 0.1);
}

TEST(LoadReport, PercentilesAreTheFloorOfTheirShare) {
    std::vector<double> samples;
    for (int i = 200; i > 0; --i) samples.push_back(i);
    const LatencySummary summary = summarise(samples);
    EXPECT_EQ(summary.count, 200U);
    EXPECT_DOUBLE_EQ(summary.mean, 100.5);
    EXPECT_DOUBLE_EQ(summary.p50, 101);
    EXPECT_DOUBLE_EQ(summary.p95, 191);
    EXPECT_DOUBLE_EQ(summary.p99, 199);
    EXPECT_DOUBLE_EQ(summary.most, 200);
    EXPECT_EQ(summarise({}).count, 0U);
}

}  // namespace
}  // namespace helix::lab::load_run_test
