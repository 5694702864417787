#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "../net/http_test_client.h"
#include "api/api_server.h"
#include "byte_codec.h"
#include "fake_service.h"
#include "net/sse.h"

namespace helix::api {

// The real server on a free port of the loopback, a service that the test plays, a model of bytes.
class ApiTest : public ::testing::Test {
  protected:
    using Json = nlohmann::json;

    ApiTest() {
        model_.name = "byte-model";
        model_.aliases = {"gpt-x"};
        model_.created = 1700000000;
        model_.context_length = 200;
        options_.seed = 7;
        options_.unix_time = [] { return std::int64_t{1234567890}; };
        options_.http.tick = base::from_ms(10);
        options_.access.host_names = {"test"};  // requests written by hand
        core::ClusterView view;
        view.serving = true;
        view.epoch = 1;
        service_.set_view(view);
    }

    void start() {
        auto server = ApiServer::start(options_, models());
        ASSERT_TRUE(server.ok()) << server.error().message;
        server_ = std::move(server).value();
    }
    virtual ModelRegistry models() {
        ModelRegistry models;
        models.add({model_, make_codec(), &service_});
        return models;
    }
    virtual std::unique_ptr<const TextCodec> make_codec() { return std::make_unique<ByteCodec>(); }
    net::TestClient client() {
        if (!server_) start();
        return net::TestClient(server_->port());
    }
    net::TestClient::Response get(const std::string& path, const std::string& headers = {}) {
        auto c = client();
        c.request("GET", path, {}, headers);
        return c.read_response();
    }
    net::TestClient::Response post(const std::string& path, const std::string& body,
                                   const std::string& headers = {}) {
        auto c = client();
        // The client names the type of a body only where there is one.
        c.request("POST", path, body,
                  body.empty() ? "content-type: application/json\r\n" + headers : headers);
        return c.read_response();
    }
    // The value of a metric that has one; "" when there is none.
    std::string metric(const std::string& name) {
        const std::string text = get("/metrics").body;
        const std::size_t at = text.find("\n" + name + "{");
        if (at == std::string::npos) return {};
        const std::size_t value = text.find("} ", at) + 2;
        return text.substr(value, text.find('\n', value) - value);
    }
    // Whether the metric has this value within ten seconds.
    bool metric_becomes(const std::string& name, const std::string& value) {
        for (int i = 0; i < 1000; ++i) {
            if (metric(name) == value) return true;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        return false;
    }
    static std::vector<std::string> events(const std::string& body) {
        std::vector<std::string> out;
        net::SseParser parser([&out](std::string_view data) { out.emplace_back(data); });
        parser.push(body);
        return out;
    }

    ApiOptions options_;
    ModelInfo model_;
    FakeService service_;
    std::unique_ptr<ApiServer> server_;
};

}  // namespace helix::api
