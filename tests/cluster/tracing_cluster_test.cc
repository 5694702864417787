// Traces of requests that real processes of the helix binary answer, as a collector gets them.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "api/stub_collector.h"
#include "cluster/process.h"
#include "model/synth.h"
#include "net/http_client.h"
#include "spec/placement_file.h"

namespace helix::cluster::tracing_cluster_test {
namespace {

using api::attribute;
using nlohmann::json;

constexpr const char* kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr const char* kCaller = "00f067aa0ba902b7";

std::int64_t start_of(const json& span) {
    return std::stoll(span.at("startTimeUnixNano").get<std::string>());
}
std::int64_t end_of(const json& span) {
    return std::stoll(span.at("endTimeUnixNano").get<std::string>());
}

// The tiny model with its layers dealt out to three workers that are processes.
class TracingCluster : public ::testing::Test {
  protected:
    void SetUp() override {
        model::SynthOptions synth;
        synth.path = model_;
        ASSERT_TRUE(model::synth_model(synth).ok());
        const auto shape = std::find_if(model::synth_shapes().begin(), model::synth_shapes().end(),
                                        [&](const auto& one) { return one.name == synth.shape; });
        n_layers_ = shape->n_layers;
        ASSERT_GE(n_layers_, 3);
        spec::PlacementFile file;
        file.cluster = "three";
        file.model = "tiny";
        file.method = "by hand";
        file.n_layers = n_layers_;
        file.placement.layers = {{0, 1}, {1, 2}, {2, n_layers_}};
        file.node_names = {"a", "b", "c"};
        ASSERT_TRUE(spec::write_placement_file(placement_, file).ok());
    }

    void start(const std::vector<std::string>& more) {
        std::vector<std::string> words{"serve",       "--model",     model_,          "--listen",
                                       at(),          "--no-worker", "--min-workers", "3",
                                       "--placement", placement_};
        words.insert(words.end(), more.begin(), more.end());
        server_ = std::make_unique<Process>(words, folder_.file("serve.log"));
        for (const char* name : {"a", "b", "c"}) workers_.push_back(worker(name));
        ASSERT_TRUE(eventually(
            [this] { return http(port_, "GET", "/health/ready").starts_with("HTTP/1.1 200"); }, 60))
            << server_->log();
    }
    // Slow enough for what is to happen while a request runs.
    std::unique_ptr<Process> worker(const std::string& name) const {
        return std::make_unique<Process>(
            std::vector<std::string>{"worker", "--join", at(), "--name", name, "--host-id", name,
                                     "--memory", "64MB", "--threads", "1", "--speed", "0.05",
                                     "--cache", folder_.file("cache-" + name)},
            folder_.file(name + ".log"));
    }
    // The status of the answer to a POST with this traceparent.
    int ask(const std::string& path, const std::string& body, const std::string& traceparent) {
        auto client = net::HttpClient::create({"127.0.0.1", std::to_string(port_), ""});
        if (!client.ok()) return 0;
        net::HttpCall call;
        call.method = "POST";
        call.path = path;
        call.body = body;
        call.headers = {{"traceparent", traceparent}};
        const auto answer = net::http_call(**client, std::move(call));
        return answer.ok() ? answer->status : 0;
    }
    std::string at() const { return "127.0.0.1:" + std::to_string(port_); }

    Folder folder_;
    std::string model_ = folder_.file("tiny.gguf");
    std::string placement_ = folder_.file("placement.json");
    std::int32_t n_layers_ = 0;
    int port_ = free_port();
    api::StubCollector collector_;
    std::unique_ptr<Process> server_;
    std::vector<std::unique_ptr<Process>> workers_;
};

TEST_F(TracingCluster, EachStageOfARequestHasASpanWithTheTimesOfItsWorker) {
    ASSERT_NO_FATAL_FAILURE(start({"--otlp-endpoint", collector_.endpoint()}));
    const std::string parent = std::string("00-") + kTrace + "-" + kCaller + "-01";
    ASSERT_EQ(ask("/v1/completions",
                  R"({"prompt": "once upon", "max_tokens": 20, "ignore_eos": true})", parent),
              200)
        << server_->log();
    const std::vector<json> spans = collector_.wait_spans(8);
    ASSERT_EQ(spans.size(), 8U) << server_->log();
    const json& root = spans[0];
    EXPECT_EQ(root.at("parentSpanId"), kCaller);
    EXPECT_EQ(attribute(root, "gen_ai.usage.output_tokens"), "20");
    std::vector<json> stages;
    for (const json& span : spans) {
        EXPECT_EQ(span.at("traceId"), kTrace);
        EXPECT_LE(start_of(root), start_of(span));
        EXPECT_LE(start_of(span), end_of(span));
        EXPECT_LE(end_of(span), end_of(root));
        if (&span == &root) continue;
        EXPECT_EQ(span.at("parentSpanId"), root.at("spanId"));
        if (span.at("name").get<std::string>().starts_with("stage ")) stages.push_back(span);
    }
    ASSERT_EQ(stages.size(), 3U);
    const std::int64_t rows =
        std::stoll(attribute(root, "gen_ai.usage.input_tokens").get<std::string>()) + 19;
    for (std::size_t i = 0; i < 3; ++i) {
        const json& stage = stages[i];
        EXPECT_EQ(stage.at("name"), std::string("stage ") + "abc"[i]);
        EXPECT_EQ(attribute(stage, "helix.stage.index"), std::to_string(i));
        EXPECT_EQ(attribute(stage, "helix.stage.first_layer"), std::to_string(i));
        EXPECT_EQ(attribute(stage, "helix.stage.rows"), std::to_string(rows));
        const double busy = attribute(stage, "helix.stage.busy_s");
        EXPECT_GT(busy, 0);
        EXPECT_LE(busy * 1e9, static_cast<double>(end_of(stage) - start_of(stage)) + 1);
    }
    EXPECT_EQ(attribute(stages[2], "helix.stage.end_layer"), std::to_string(n_layers_));
    // They begin as the prompt comes to them. Their times are late by a message's way, which is far
    // less here than a request takes, and not always the same.
    EXPECT_LT(start_of(stages[0]), end_of(stages[2]));
    EXPECT_LT(start_of(stages[2]), end_of(stages[0]));

    // What ends with the process still arrives.
    EXPECT_EQ(ask("/v1/completions", R"({"prompt": 7})", parent), 400);
    EXPECT_EQ(server_->stop(SIGTERM), 0) << server_->log();
    const std::vector<json> all = collector_.wait_spans(9);
    ASSERT_EQ(all.size(), 9U);
    EXPECT_EQ(attribute(all[8], "error.type"), "400");
}

TEST_F(TracingCluster, AWorkersDeathIsAnEventAndTheOthersStagesAreThere) {
    ASSERT_NO_FATAL_FAILURE(start({"--otlp-endpoint", collector_.endpoint(), "--no-balance"}));
    std::atomic<int> tokens{0};
    std::string answer;
    std::thread asking([&] {
        answer = http(port_, "POST", "/v1/completions",
                      R"({"prompt": "a", "max_tokens": 150, "ignore_eos": true, "stream": true})",
                      [&](const std::string& so_far) {
                          tokens = static_cast<int>(std::count(so_far.begin(), so_far.end(), '{'));
                      });
    });
    EXPECT_TRUE(eventually([&] { return tokens > 4; }, 60));
    workers_[1]->stop(SIGKILL);
    // It comes back, and the request goes on.
    workers_[1] = worker("b");
    asking.join();
    EXPECT_NE(answer.find("[DONE]"), std::string::npos) << server_->log();
    const std::vector<json> spans = collector_.wait_spans(11);
    ASSERT_EQ(spans.size(), 11U) << json(spans).dump(1) << server_->log();
    const json& root = spans[0];
    EXPECT_FALSE(root.contains("status"));
    ASSERT_EQ(root.at("events").size(), 1U);
    EXPECT_EQ(root.at("events")[0].at("name"), "helix.restarted");
    EXPECT_EQ(attribute(root.at("events")[0], "helix.reason"), "worker_lost");
    const auto is_silent = [](const json& span) {
        return span.at("name") == "stage b" && attribute(span, "helix.stage.busy_s").is_null();
    };
    EXPECT_EQ(std::count_if(spans.begin(), spans.end(), is_silent), 1)
        << "the dead one says nothing of its first attempt";
}

TEST_F(TracingCluster, AnEndpointThatIsNoAddressEndsTheStartByItsName) {
    Process server({"serve", "--model", model_, "--listen", at(), "--otlp-endpoint", "ftp://x"},
                   folder_.file("serve.log"));
    EXPECT_EQ(server.stop(0), 1);
    EXPECT_NE(server.log().find("--otlp-endpoint: 'ftp://x'"), std::string::npos) << server.log();
}

}  // namespace
}  // namespace helix::cluster::tracing_cluster_test
