#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "net/http_server.h"

namespace helix::api {

// An OpenTelemetry collector on a free port of the loopback that keeps what it takes.
class StubCollector {
  public:
    using Json = nlohmann::json;

    StubCollector() {
        net::HttpServerOptions options;
        options.tick = base::from_ms(10);
        auto server = net::HttpServer::listen(options);
        EXPECT_TRUE(server.ok());
        server_ = std::move(server).value();
        server_->start(
            [this](const std::shared_ptr<net::HttpExchange>& exchange) { answer(exchange); });
    }

    std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(server_->port()); }
    // The next POST gets this answer; when there is none left, 200 with "{}".
    void answer_next(net::HttpResponse response) {
        const std::lock_guard lock(mutex_);
        answers_.push_back(std::move(response));
    }
    // From now on nothing is answered.
    void fall_silent() {
        const std::lock_guard lock(mutex_);
        silent_ = true;
    }
    // Waits for as many POSTs, taken or not; their bodies, so far, after ten seconds without.
    std::vector<Json> wait_posts(std::size_t count) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, std::chrono::seconds(10), [&] { return posts_.size() >= count; });
        return posts_;
    }
    // Waits for as many spans that were answered with 200.
    std::vector<Json> wait_spans(std::size_t count) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, std::chrono::seconds(10), [&] { return taken_.size() >= count; });
        return taken_;
    }

    static std::vector<Json> spans_in(const Json& body) {
        std::vector<Json> spans;
        for (const Json& resource : body.at("resourceSpans")) {
            for (const Json& scope : resource.at("scopeSpans")) {
                for (const Json& span : scope.at("spans")) spans.push_back(span);
            }
        }
        return spans;
    }

  private:
    void answer(const std::shared_ptr<net::HttpExchange>& exchange) {
        net::HttpResponse response;
        response.body = "{}";
        const std::lock_guard lock(mutex_);
        EXPECT_EQ(exchange->request().method + " " + exchange->request().path, "POST /v1/traces");
        EXPECT_EQ(exchange->request().header("content-type"), "application/json");
        posts_.push_back(Json::parse(exchange->request().body));
        if (!answers_.empty()) {
            response = answers_.front();
            answers_.pop_front();
        }
        if (silent_) {
            held_.push_back(exchange);
        } else {
            exchange->respond(response);
            if (response.status == 200) {
                for (Json& span : spans_in(posts_.back())) taken_.push_back(std::move(span));
            }
        }
        changed_.notify_all();
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<net::HttpResponse> answers_;
    std::vector<Json> posts_;
    std::vector<Json> taken_;
    std::vector<std::shared_ptr<net::HttpExchange>> held_;
    bool silent_ = false;
    std::unique_ptr<net::HttpServer> server_;  // goes first: its thread uses the rest
};

// The value of a span's attribute, whatever its type; null when there is none.
inline nlohmann::json attribute(const nlohmann::json& span, const std::string& key) {
    for (const auto& one : span.at("attributes")) {
        if (one.at("key") == key) return one.at("value").begin().value();
    }
    return {};
}

}  // namespace helix::api
