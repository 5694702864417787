#include <gmock/gmock.h>

#include <string>

#include "api/routes.h"
#include "api_fixture.h"

// What HTTP itself asks of every endpoint: HEAD, encodings, statuses that name a wait, whole URLs,
// clients that end their side first.

namespace helix::api::http_edge_test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kHello = R"({"messages":[{"role":"user","content":"Hi"}],"stream":true})";

// The path of a route with something in its open place.
std::string some_path(std::string_view pattern) {
    const std::size_t open = pattern.find('{');
    return open == std::string_view::npos ? std::string(pattern)
                                          : std::string(pattern.substr(0, open)) + "byte-model";
}

TEST_F(ApiTest, HeadAnswersWhatGetAnswersWithoutItsBody) {
    auto c = client();
    for (const Route& route : all_routes()) {
        if (route.endless) continue;  // tests/api/cluster_feed_test.cc
        const std::string path = some_path(route.path);
        SCOPED_TRACE(path);
        const auto whole = get(path);
        c.request("HEAD", path);
        const auto head = c.read_response(false);
        EXPECT_EQ(head.status, whole.status);
        EXPECT_EQ(head.header("content-type"), whole.header("content-type"));
        // A message names the method; counts grow.
        if (path == "/metrics" || whole.status >= 400) continue;
        EXPECT_EQ(head.header("content-length"), std::to_string(whole.body.size()));
    }
    c.request("GET", "/health");
    EXPECT_EQ(c.read_response().body, R"({"status":"ok"})") << "no body lies in between";
}

TEST_F(ApiTest, ABodyThatIsPackedIsRefusedWithAWordThatSaysSo) {
    for (const char* encoding : {"gzip", "deflate", "br", "identity, gzip", "GZIP"}) {
        const auto packed = post("/v1/chat/completions", "\x1f\x8b",
                                 std::string("content-encoding: ") + encoding + "\r\n");
        EXPECT_EQ(packed.status, 415) << encoding;
        EXPECT_EQ(packed.header("accept-encoding"), "identity");
        const Json error = Json::parse(packed.body)["error"];
        EXPECT_EQ(error["code"], "unsupported_content_encoding");
        EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("Content-Encoding"));
    }
    const auto anthropic = post("/v1/messages", "{}", "content-encoding: gzip\r\n");
    EXPECT_EQ(anthropic.status, 415);
    EXPECT_EQ(Json::parse(anthropic.body)["type"], "error");
    for (const char* plain : {"content-encoding: Identity\r\n", "content-encoding:\r\n"}) {
        EXPECT_EQ(post("/tokenize", R"({"prompt":"a"})", plain).status, 200) << plain;
    }
}

TEST_F(ApiTest, OneConnectionTooManyIsToldToComeBack) {
    options_.http.max_connections = 2;
    auto first = client();
    first.request("POST", "/v1/completions", R"({"prompt":"a"})");
    ASSERT_TRUE(service_.next());
    auto second = client();
    second.request("POST", "/v1/completions", R"({"prompt":"b"})");
    ASSERT_TRUE(service_.next());
    auto third = client();
    const auto full = third.read_response();
    EXPECT_EQ(full.status, 503);
    EXPECT_EQ(full.header("retry-after"), "1");
    EXPECT_EQ(Json::parse(full.body)["error"]["code"], "overloaded");
}

TEST_F(ApiTest, BodiesThatFillTheirMemoryAreToldToComeBack) {
    options_.http.max_bodies_bytes = 1000;
    start();
    auto first = client();
    first.send("POST /v1/completions HTTP/1.1\r\nhost: test\r\ncontent-length: 700\r\n\r\n" +
               std::string(600, ' '));
    // When the first one's share is taken the second one's is refused.
    for (int i = 0; i < 1000; ++i) {
        const auto refused = post("/v1/completions", std::string(600, ' '));
        if (refused.status != 429) continue;
        EXPECT_EQ(refused.header("retry-after"), "1");
        const Json error = Json::parse(refused.body)["error"];
        EXPECT_EQ(error["code"], "rate_limit_exceeded");
        EXPECT_EQ(error["type"], "rate_limit_error");
        return;
    }
    FAIL() << "it was never refused";
}

TEST_F(ApiTest, APromptBeyondTheContextHasTheSameCodeOnEveryEndpoint) {
    const std::string text(300, 'x');
    struct Case {
        const char* path;
        Json body;
        const char* field;
    };
    const Json messages = {{{"role", "user"}, {"content", text}}};
    for (const Case& c : {Case{"/v1/chat/completions", {{"messages", messages}}, "messages"},
                          Case{"/v1/completions", {{"prompt", text}}, "prompt"},
                          Case{"/v1/responses", {{"input", text}}, "input"}}) {
        for (const bool stream : {false, true}) {
            Json body = c.body;
            body["stream"] = stream;
            const auto response = post(c.path, body.dump());
            EXPECT_EQ(response.status, 400) << c.path;
            EXPECT_EQ(response.header("content-type"), "application/json");
            const Json error = Json::parse(response.body)["error"];
            EXPECT_EQ(error["code"], "context_length_exceeded") << c.path;
            EXPECT_EQ(error["type"], "invalid_request_error");
            EXPECT_EQ(error["param"], c.field);
            EXPECT_THAT(error["message"].get<std::string>(),
                        HasSubstr("maximum context length is 200 tokens"));
        }
    }
    core::RejectRequest rejection;
    rejection.reason = core::RejectReason::too_long;
    service_.reject_all(rejection);
    const Json hello = {{{"role", "user"}, {"content", "a"}}};
    for (const Case& c : {Case{"/v1/chat/completions", {{"messages", hello}}, ""},
                          Case{"/v1/completions", {{"prompt", "a"}}, ""},
                          Case{"/v1/responses", {{"input", "a"}}, ""}}) {
        const auto response = post(c.path, c.body.dump());
        EXPECT_EQ(response.status, 400) << c.path;
        EXPECT_EQ(Json::parse(response.body)["error"]["code"], "context_length_exceeded") << c.path;
    }
}

TEST_F(ApiTest, AWholeUrlNamesTheServerThatIsMeant) {
    auto c = client();
    c.send("GET http://localhost:1234/v1/models HTTP/1.1\r\nhost: evil.example\r\n\r\n");
    EXPECT_EQ(c.read_response().status, 200);
    c.send("GET http://evil.example/v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n");
    EXPECT_EQ(c.read_response().status, 421);
}

TEST_F(ApiTest, AClientThatEndsItsSideGetsItsWholeStream) {
    auto c = client();
    c.request("POST", "/v1/chat/completions", kHello);
    c.end_sending();
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->say("ab");
    request->finish(core::FinishReason::stop);
    const auto response = c.read_response();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(events(response.body).back(), "[DONE]");
    EXPECT_FALSE(service_.was_ended(request->id));
    EXPECT_TRUE(c.wait_closed());
}

}  // namespace
}  // namespace helix::api::http_edge_test
