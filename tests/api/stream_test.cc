#include "api_fixture.h"

namespace helix::api {
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

}  // namespace
}  // namespace helix::api
