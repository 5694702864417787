// Traces of requests, as a collector gets them.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "api_fixture.h"
#include "stub_collector.h"

namespace helix::api::tracing_test {
namespace {

using core::FinishReason;
using nlohmann::json;

constexpr const char* kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr const char* kCaller = "00f067aa0ba902b7";

std::string traceparent(bool sampled = true) {
    return std::string("traceparent: 00-") + kTrace + "-" + kCaller + (sampled ? "-01" : "-00") +
           "\r\n";
}
std::int64_t start_of(const json& span) {
    return std::stoll(span.at("startTimeUnixNano").get<std::string>());
}
std::int64_t end_of(const json& span) {
    return std::stoll(span.at("endTimeUnixNano").get<std::string>());
}
std::vector<std::string> names_of(const std::vector<json>& spans) {
    std::vector<std::string> names;
    for (const json& span : spans) names.push_back(span.at("name"));
    return names;
}
base::TimePoint steady_now() {
    return {std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count()};
}

class TracingTest : public ApiTest {
  protected:
    TracingTest() {
        TracingOptions tracing;
        tracing.otlp.endpoint = collector_.endpoint();
        tracing.otlp.delay = base::from_ms(10);
        options_.tracing = tracing;
        core::ClusterView view;
        view.serving = true;
        for (const std::uint32_t id : {1U, 2U}) {
            core::WorkerView worker;
            worker.worker = {id};
            worker.node.name = id == 1 ? "den" : "loft";
            view.workers.push_back(worker);
        }
        service_.set_view(view);
    }

    // The spans of the next trace, its request's first; root() is that one.
    std::vector<json> spans(std::size_t count) {
        std::vector<json> all = collector_.wait_spans(taken_ + count);
        EXPECT_EQ(all.size(), taken_ + count) << json(all).dump(1);
        all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(taken_));
        taken_ += all.size();
        for (const json& span : all) {
            EXPECT_LE(start_of(span), end_of(span)) << span.dump();
            EXPECT_GE(start_of(span), start_of(all[0])) << span.dump();
            EXPECT_LE(end_of(span), end_of(all[0])) << span.dump();
            EXPECT_EQ(span.at("traceId"), all[0].at("traceId"));
            if (&span == &all[0]) continue;
            EXPECT_EQ(span.at("parentSpanId"), all[0].at("spanId"));
        }
        return all;
    }
    void tell_stages(const FakeRequest& request, std::uint32_t attempt) {
        const base::TimePoint now = steady_now();
        for (const std::uint32_t worker : {1U, 2U}) {
            service_.tell_stage({request.id,
                                 attempt,
                                 {worker},
                                 3,
                                 5,
                                 base::from_ms(2),
                                 base::TimePoint{now.ns - 1'000'000},
                                 now});
        }
    }

    StubCollector collector_;
    std::size_t taken_ = 0;
};

TEST_F(TracingTest, ARequestsSpansTellWhereItWasAndBelongToTheCallersTrace) {
    auto c = client();
    c.request("POST", "/v1/chat/completions",
              R"({"model":"gpt-x","messages":[{"role":"user","content":"hey"}],
                  "max_tokens":7,"temperature":0.5,"seed":3})",
              traceparent() + "tracestate: a=1\r\nx-request-id: mine\r\n");
    auto request = service_.next();
    ASSERT_TRUE(request);
    EXPECT_TRUE(request->request.timed);
    request->accept();
    request->route(2);
    request->say("ab");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    tell_stages(*request, 1);
    request->finish(FinishReason::stop);
    EXPECT_EQ(c.read_response().status, 200);

    const std::vector<json> all = spans(7);
    EXPECT_EQ(names_of(all),
              (std::vector<std::string>{"chat byte-model", "prepare", "queue", "prefill",
                                        "stage den", "stage loft", "decode"}));
    const json& root = all[0];
    EXPECT_EQ(root.at("traceId"), kTrace);
    EXPECT_EQ(root.at("parentSpanId"), kCaller);
    EXPECT_EQ(root.at("traceState"), "a=1");
    EXPECT_EQ(root.at("kind"), 2);
    EXPECT_FALSE(root.contains("status"));
    EXPECT_EQ(attribute(root, "gen_ai.operation.name"), "chat");
    EXPECT_EQ(attribute(root, "gen_ai.request.model"), "gpt-x");
    EXPECT_EQ(attribute(root, "gen_ai.response.model"), "byte-model");
    EXPECT_EQ(attribute(root, "gen_ai.request.max_tokens"), "7");
    EXPECT_EQ(attribute(root, "gen_ai.request.temperature"), 0.5);
    EXPECT_EQ(attribute(root, "gen_ai.request.seed"), "3");
    EXPECT_EQ(attribute(root, "gen_ai.usage.input_tokens"),
              std::to_string(request->request.prompt.size()));
    EXPECT_EQ(attribute(root, "gen_ai.usage.output_tokens"), "2");
    EXPECT_EQ(attribute(root, "gen_ai.usage.cache_read.input_tokens"), "2");
    EXPECT_EQ(attribute(root, "gen_ai.response.finish_reasons").at("values")[0].at("stringValue"),
              "stop");
    EXPECT_GT(attribute(root, "gen_ai.response.time_to_first_chunk"), 0);
    EXPECT_EQ(attribute(root, "http.response.status_code"), "200");
    EXPECT_EQ(attribute(root, "http.route"), "/chat/completions");
    EXPECT_EQ(attribute(root, "helix.request_id"), "mine");
    for (std::size_t i = 2; i < 4; ++i) EXPECT_EQ(end_of(all[i - 1]), start_of(all[i])) << i;
    EXPECT_EQ(end_of(all[3]), start_of(all[6])) << "the first token ends prefill";
    EXPECT_EQ(attribute(all[4], "helix.stage.first_layer"), "0");
    EXPECT_EQ(attribute(all[4], "helix.stage.end_layer"), "2");
    EXPECT_EQ(attribute(all[5], "helix.stage.index"), "1");
    EXPECT_EQ(attribute(all[5], "helix.worker.id"), "2");
    EXPECT_EQ(attribute(all[5], "helix.stage.busy_s"), 0.002);
    EXPECT_EQ(attribute(all[5], "helix.stage.rows"), "5");
    EXPECT_EQ(end_of(all[5]) - start_of(all[5]), 1'000'000) << "as the worker said it";
    EXPECT_EQ(attribute(all[6], "helix.output_tokens"), "2");
    EXPECT_TRUE(metric_becomes("helix_trace_spans_exported_total", "7"));
    EXPECT_EQ(metric("helix_trace_spans_dropped_total"), "0");
}

TEST_F(TracingTest, ARestartAfterAWorkersDeathAndAMoveAreEventsAndHaveStages) {
    auto c = client();
    c.request("POST", "/v1/completions", R"({"prompt":"hey"})", traceparent());
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->route();
    request->say("a");
    request->route(0, 2, core::RouteReason::worker_lost);
    request->route(0, 4, core::RouteReason::moved);
    request->finish(FinishReason::length);
    tell_stages(*request, 4);  // after the end, and not of the others
    EXPECT_EQ(c.read_response().status, 200);
    const std::vector<json> all = spans(11);
    const json& events = all[0].at("events");
    ASSERT_EQ(events.size(), 2U);
    EXPECT_EQ(events[0].at("name"), "helix.restarted");
    EXPECT_EQ(attribute(events[0], "helix.attempt"), "2");
    EXPECT_EQ(attribute(events[0], "helix.reason"), "worker_lost");
    EXPECT_EQ(events[1].at("name"), "helix.moved");
    EXPECT_EQ(attribute(events[1], "helix.attempt"), "4");
    EXPECT_FALSE(all[0].contains("status")) << "it went well in the end";
    std::vector<std::string> attempts;
    for (const json& span : all) {
        if (span.at("name") != "stage den") continue;
        attempts.push_back(attribute(span, "helix.attempt"));
        EXPECT_EQ(attribute(span, "helix.stage.busy_s").is_null(), attempts.back() != "4");
    }
    EXPECT_EQ(attempts, (std::vector<std::string>{"1", "2", "4"}));
}

TEST_F(TracingTest, OnlyWhatTheCallerSamplesIsTraced) {
    options_.tracing->sample = 0;
    const auto ask = [this](const std::string& headers) {
        auto c = client();
        c.request("POST", "/v1/completions", R"({"prompt":"hey"})", headers);
        auto request = service_.next();
        ASSERT_TRUE(request);
        EXPECT_EQ(request->request.timed, headers == traceparent());
        request->say("a");
        request->finish(FinishReason::stop);
        EXPECT_EQ(c.read_response().status, 200);
    };
    ask("");
    ask(traceparent(false));
    ask("traceparent: 00-nonsense-01\r\n");
    ask(traceparent());
    const auto all = spans(4);
    EXPECT_EQ(all[0].at("traceId"), kTrace);
    EXPECT_EQ(names_of(all), (std::vector<std::string>{"text_completion byte-model", "prepare",
                                                       "queue", "decode"}))
        << "it was never said where it ran";
    EXPECT_EQ(collector_.wait_posts(1).size(), 1U);
}

TEST_F(TracingTest, WithoutATraceparentATraceBeginsHere) {
    auto c = client();
    c.request("POST", "/v1/embeddings", R"({"input":{}})", "");
    EXPECT_EQ(c.read_response().status, 400);
    const auto all = spans(1);
    EXPECT_EQ(all[0].at("name"), "embeddings");
    EXPECT_FALSE(all[0].contains("parentSpanId"));
    EXPECT_EQ(all[0].at("traceId").get<std::string>().size(), 32U);
    EXPECT_NE(all[0].at("traceId"), std::string(32, '0'));
}

TEST_F(TracingTest, WhatIsRefusedHasASpanThatSaysSo) {
    EXPECT_EQ(post("/v1/chat/completions", R"({"messages":7})", traceparent()).status, 400);
    auto all = spans(1);
    EXPECT_EQ(all[0].at("name"), "chat");
    EXPECT_EQ(all[0].at("status").at("code"), 2);
    EXPECT_EQ(attribute(all[0], "error.type"), "400");
    EXPECT_EQ(attribute(all[0], "http.response.status_code"), "400");

    core::RejectRequest full;
    full.reason = core::RejectReason::queue_full;
    full.message = "the queue is full";
    service_.reject_all(full);
    EXPECT_EQ(post("/v1/completions", R"({"prompt":"hey"})", traceparent()).status, 429);
    all = spans(3);
    EXPECT_EQ(names_of(all),
              (std::vector<std::string>{"text_completion byte-model", "prepare", "queue"}));
    EXPECT_EQ(attribute(all[0], "error.type"), "429");
    EXPECT_EQ(all[0].at("status").at("message"), "Too Many Requests");
    EXPECT_EQ(all[2].at("status").at("code"), 2);
}

TEST_F(TracingTest, AClientThatLeavesHasASpanThatEndsThen) {
    std::optional<FakeRequest> request;
    {
        auto c = client();
        c.request("POST", "/v1/completions", R"({"prompt":"hey","stream":true})", traceparent());
        request = service_.next();
        ASSERT_TRUE(request);
        request->route();
        request->say("a");
        EXPECT_EQ(c.read_head().status, 200);
    }
    EXPECT_EQ(service_.wait_ended(request->id), FinishReason::cancelled);
    const auto all = spans(7);
    EXPECT_EQ(all[0].at("status").at("code"), 2);
    EXPECT_EQ(attribute(all[0], "error.type"), "cancelled");
    EXPECT_EQ(attribute(all[0], "gen_ai.response.finish_reasons").at("values")[0].at("stringValue"),
              "abort");
    EXPECT_EQ(attribute(all[0], "gen_ai.usage.output_tokens"), "1");
}

TEST_F(TracingTest, AnAnswerThatFailsInTheMiddleIsAnError) {
    auto c = client();
    c.request("POST", "/v1/completions", R"({"prompt":"hey","stream":true})", traceparent());
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->say("a");
    request->finish(FinishReason::error, "it broke");
    EXPECT_EQ(c.read_response().status, 200) << "it had begun";
    const auto all = spans(4);
    EXPECT_EQ(attribute(all[0], "error.type"), "error");
    EXPECT_EQ(all[0].at("status").at("code"), 2);
    EXPECT_EQ(all[3].at("name"), "decode");
    EXPECT_EQ(all[3].at("status").at("code"), 2);
}

TEST_F(TracingTest, PromptsAndChoicesHaveSpansOfTheirOwn) {
    auto c = client();
    c.request("POST", "/v1/completions", R"({"prompt":["a","b"],"n":2})", traceparent());
    for (int i = 0; i < 2; ++i) {
        auto request = service_.next();
        ASSERT_TRUE(request);
        request->route();
        for (const int choice : {0, 1}) {
            request->say("xy", choice);
            request->finish_choice(choice, FinishReason::stop);
        }
        request->finish(FinishReason::stop);
        tell_stages(*request, 0);
    }
    EXPECT_EQ(c.read_response().status, 200);
    const auto all = spans(14);
    std::vector<std::string> decodes;
    for (const json& span : all) {
        if (span.at("name") != "decode") continue;
        decodes.push_back(attribute(span, "helix.prompt").get<std::string>() + "/" +
                          attribute(span, "helix.choice").get<std::string>());
    }
    EXPECT_EQ(decodes, (std::vector<std::string>{"0/0", "0/1", "1/2", "1/3"}));
}

TEST_F(TracingTest, TheEndOfTheServerSendsWhatThereIs) {
    options_.tracing->otlp.delay = base::from_seconds(600);
    EXPECT_EQ(post("/v1/chat/completions", R"({"messages":7})", traceparent()).status, 400);
    server_->stop();
    EXPECT_EQ(spans(1).size(), 1U);
}

TEST_F(TracingTest, WithoutACollectorNothingIsTimed) {
    options_.tracing.reset();
    auto c = client();
    c.request("POST", "/v1/completions", R"({"prompt":"hey"})", traceparent());
    auto request = service_.next();
    ASSERT_TRUE(request);
    EXPECT_FALSE(request->request.timed);
    request->finish(FinishReason::stop);
    EXPECT_EQ(c.read_response().status, 200);
    EXPECT_EQ(metric("helix_trace_spans_exported_total"), "");
}

TEST_F(TracingTest, AnEndpointThatIsNoAddressEndsTheStart) {
    options_.tracing->otlp.endpoint = "ftp://x";
    const auto server = ApiServer::start(options_, models());
    ASSERT_FALSE(server.ok());
    EXPECT_NE(server.error().message.find("ftp://x"), std::string::npos);
}

}  // namespace
}  // namespace helix::api::tracing_test
