// Anthropic's endpoints, from the request to what the service gets and back.

#include "api/protocols/anthropic_request.h"
#include "api_fixture.h"

namespace helix::api::anthropic_test {
namespace {

using core::FinishReason;

class AnthropicTest : public ApiTest {
  protected:
    // The prompt that a body leads to.
    std::string prompt_of(const std::string& body) {
        auto c = client();
        c.request("POST", "/v1/messages", body);
        auto request = service_.next();
        if (!request) return "nothing was asked";
        request->finish(FinishReason::stop);
        return request->prompt();
    }
    static std::string with(const std::string& fields) {
        return R"({"model":"byte-model","max_tokens":20,)" + fields + "}";
    }
    static constexpr const char* kHi = R"("messages":[{"role":"user","content":"Hi"}])";
};

TEST_F(AnthropicTest, AMessageIsAnsweredWhole) {
    auto c = client();
    c.request("POST", "/v1/messages?beta=true",
              with(std::string(kHi) + R"(,"system":"Be brief.","temperature":0.5,"top_k":7,
                   "metadata":{"user_id":"u"},"unknown":{"a":1})"));
    auto request = service_.next();
    ASSERT_TRUE(request);
    EXPECT_EQ(request->prompt(), "system:Be brief.\nuser:Hi\nassistant:");
    EXPECT_EQ(request->request.max_tokens, 20);
    EXPECT_EQ(request->request.sampling.temperature, 0.5F);
    EXPECT_EQ(request->request.sampling.top_k, 7);
    request->route(16);
    request->say("Yes");
    request->token(kByteEnd);
    request->finish(FinishReason::stop);
    const auto response = c.read_response();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.header("request-id"), response.header("x-request-id"));
    EXPECT_FALSE(response.header("request-id").empty());
    Json message = Json::parse(response.body);
    EXPECT_TRUE(message["id"].get<std::string>().starts_with("msg_"));
    message.erase("id");
    EXPECT_EQ(message, Json::parse(R"({"type":"message","role":"assistant","model":"byte-model",
        "content":[{"type":"text","text":"Yes"}],"stop_reason":"end_turn","stop_sequence":null,
        "usage":{"input_tokens":19,"cache_creation_input_tokens":0,"cache_read_input_tokens":16,
        "output_tokens":4,"output_tokens_details":{"thinking_tokens":0}}})"));
}

TEST_F(AnthropicTest, AStreamHasItsEventsInOrder) {
    auto c = client();
    c.request("POST", "/v1/messages", with(std::string(kHi) + R"(,"stream":true)"));
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->route();
    request->say("ab");
    request->finish(FinishReason::length);
    const auto response = c.read_response();
    EXPECT_EQ(response.header("content-type"), "text/event-stream");
    EXPECT_FALSE(response.header("request-id").empty());
    std::vector<std::string> types;
    for (const std::string& event : events(response.body)) {
        types.push_back(Json::parse(event)["type"]);
        EXPECT_NE(response.body.find("event: " + types.back() + "\ndata: " + event),
                  std::string::npos);
    }
    EXPECT_EQ(types,
              (std::vector<std::string>{"message_start", "ping", "content_block_start",
                                        "content_block_delta", "content_block_delta",
                                        "content_block_stop", "message_delta", "message_stop"}));
}

TEST_F(AnthropicTest, AStopSequenceIsNamed) {
    for (const char* stream : {"false", "true"}) {
        auto c = client();
        c.request("POST", "/v1/messages",
                  with(std::string(kHi) + R"(,"stop_sequences":["zz","EN"],"stream":)" + stream));
        auto request = service_.next();
        ASSERT_TRUE(request);
        request->say("the EN");
        EXPECT_EQ(service_.wait_ended(request->id), FinishReason::stop);
        const std::string body = c.read_response().body;
        EXPECT_NE(body.find(R"("stop_reason":"stop_sequence","stop_sequence":"EN")"),
                  std::string::npos)
            << body;
    }
}

TEST_F(AnthropicTest, BlocksBecomeMessagesOfTheChat) {
    EXPECT_EQ(prompt_of(with(R"("system":[
        {"type":"text","text":"x-anthropic-billing-header: cch=1;"},
        {"type":"text","text":"A","cache_control":{"type":"ephemeral"}},
        {"type":"text","text":"B"}],"messages":[
        {"role":"user","content":[{"type":"text","text":"go"},
          {"type":"document","source":{"type":"text","media_type":"text/plain","data":"doc"}}]},
        {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},
          {"type":"redacted_thinking","data":"x"},{"type":"text","text":"I "},
          {"type":"text","text":"look"},
          {"type":"tool_use","id":"toolu_1","name":"look","input":{"at":"sky"}}]},
        {"role":"user","content":[
          {"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"blue"}]},
          {"type":"tool_result","tool_use_id":"toolu_2","content":"red","is_error":true},
          {"type":"tool_result","tool_use_id":"toolu_3"},
          {"type":"text","text":"and?"}]}])")),
              "system:A\nB\nuser:go\ndoc\nassistant:I look\ntool:blue\ntool:red\ntool:\n"
              "user:and?\nassistant:");
    EXPECT_EQ(prompt_of(with(R"("system":"","messages":[{"role":"user","content":"a"},
        {"role":"system","content":[{"type":"text","text":"s"}]},
        {"role":"assistant","content":[]}])")),
              "user:a\nsystem:s\nassistant:\nassistant:");
}

TEST_F(AnthropicTest, ToolsReachTheTemplateAsFunctions) {
    model_.context_length = 1000;
    EXPECT_EQ(prompt_of(with(std::string(kHi) + R"(,"tool_choice":{"type":"auto"},"tools":[
        {"name":"look","description":"Looks.","input_schema":{"type":"object"},
         "cache_control":{"type":"ephemeral"}},
        {"type":"custom","name":"go","input_schema":{"type":"object"}}])")),
              "tools:" +
                  nlohmann::ordered_json::parse(R"([{"type":"function","function":{"name":"look",
        "description":"Looks.","parameters":{"type":"object"}}},{"type":"function",
        "function":{"name":"go","parameters":{"type":"object"}}}])")
                      .dump() +
                  "\nuser:Hi\nassistant:");
}

TEST(AnthropicRequest, WhatChatKnowsByOtherNamesIsRenamed) {
    using Ordered = nlohmann::ordered_json;
    auto body = Ordered::parse(R"({"max_tokens":9,"messages":[{"role":"assistant","content":[
        {"type":"thinking","thinking":"hm","signature":"s"},
        {"type":"tool_use","id":"t","name":"f","input":{"b":1,"a":2}}]}],
        "stop_sequences":["x"],"thinking":{"type":"enabled","budget_tokens":1024},
        "tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true},
        "output_config":{"effort":"low","format":{"type":"json_schema","schema":{"type":"object"}}}})");
    Ordered chat;
    const auto error = chat_body_of_messages(body, true, chat);
    ASSERT_FALSE(error) << error->message;
    EXPECT_EQ(chat, Ordered::parse(R"({"max_tokens":9,"stop":["x"],"messages":[
        {"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"t",
         "type":"function","function":{"name":"f","arguments":"{\"b\":1,\"a\":2}"}}]}],
        "tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false,
        "chat_template_kwargs":{"enable_thinking":true,"thinking":true},
        "thinking_token_budget":1024,"reasoning_effort":"low",
        "response_format":{"type":"json_schema","json_schema":{"name":"answer",
          "schema":{"type":"object"}}}})"));
}

TEST_F(AnthropicTest, TokensAreCountedWithoutAnAnswer) {
    EXPECT_EQ(post("/v1/messages/count_tokens", std::string("{") + kHi + "}").body,
              R"({"input_tokens":18})");
    const std::string long_text(500, 'x');
    EXPECT_EQ(post("/v1/messages/count_tokens",
                   R"({"messages":[{"role":"user","content":")" + long_text + "\"}]}")
                  .body,
              R"({"input_tokens":516})")
        << "also of a prompt that is longer than the context";
    const auto refused = post("/v1/messages/count_tokens", R"({"messages":[]})");
    EXPECT_EQ(refused.status, 400);
    EXPECT_EQ(Json::parse(refused.body)["type"], "error");
}

TEST_F(AnthropicTest, WrongFieldsAreNamedAsAnthropicNamesThem) {
    const std::string hi = kHi;
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"{" + hi + "}", "'max_tokens': is required"},
        {R"({"max_tokens":0,)" + hi + "}", "'max_tokens': expected an integer from 1"},
        {R"({"max_tokens":9})", "'messages': is required"},
        {with(R"("messages":[])"), "'messages': expected at least one"},
        {with(R"("messages":[{"role":"tool","content":"x"}])"), "'messages[0].role'"},
        {with(R"("messages":[{"role":"user"}])"), "'messages[0].content': is required"},
        {with(R"("messages":[{"role":"user","content":[{"type":"image","source":{}}]}])"),
         "'messages[0].content[0].type': this model takes text only"},
        {with(R"("messages":[{"role":"user","content":[{"type":"tool_result"}]}])"),
         "'messages[0].content[0].tool_use_id': is required"},
        {with(R"("messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a",
              "name":"f","input":"{}"}]}])"),
         "'messages[0].content[0].input': expected an object"},
        {with(R"("messages":[{"role":"assistant","content":[{"type":"server_tool_use"}]}])"),
         "'messages[0].content[0].type': a block of type 'server_tool_use'"},
        {with(hi + R"(,"system":7)"), "'system': expected"},
        {with(hi + R"(,"stop_sequences":"x")"), "'stop_sequences': expected an array"},
        {with(hi + R"(,"stop_sequences":[""])"), "'stop_sequences': expected"},
        {with(hi + R"(,"temperature":"hot")"), "'temperature': expected a number"},
        {with(hi + R"(,"tools":[{"name":"f"}])"), "'tools[0].input_schema': expected"},
        {with(hi + R"(,"tools":[{"type":"web_search_20250305","name":"w"}])"), "'tools[0].type'"},
        {with(hi + R"(,"tool_choice":{"type":"maybe"})"), "'tool_choice.type': expected auto"},
        {with(hi + R"(,"thinking":{"type":"deep"})"), "'thinking.type': expected"},
        {with(hi + R"(,"output_config":{"format":{"type":"xml"}})"), "'output_config.format'"},
        {with(hi + R"(,"output_config":{"format":{"type":"json_schema","schema":{"not":{}}}})"),
         "'output_config.format.json_schema.schema'"},
    };
    auto c = client();
    for (const auto& [body, message] : cases) {
        c.request("POST", "/v1/messages", body);
        const auto response = c.read_response();
        EXPECT_EQ(response.status, 400) << body;
        const Json error = Json::parse(response.body);
        EXPECT_EQ(error["type"], "error");
        EXPECT_EQ(error["error"]["type"], "invalid_request_error");
        EXPECT_EQ(error["request_id"], response.header("request-id"));
        EXPECT_TRUE(error["error"]["message"].get<std::string>().starts_with(message))
            << error << "\n"
            << message;
    }
}

TEST_F(AnthropicTest, AnErrorBeforeTheStatusLineHasAnthropicsShapeWhereverItArises) {
    options_.http.max_body_bytes = 2000;
    options_.api_keys = {"secret"};
    const std::string key = "x-api-key: secret\r\n";
    const auto error_of = [](const net::TestClient::Response& response) {
        EXPECT_FALSE(response.header("request-id").empty()) << response.body;
        const Json error = Json::parse(response.body);
        EXPECT_EQ(error["type"], "error");
        EXPECT_EQ(error["request_id"], response.header("request-id"));
        return std::pair(response.status, error["error"]["type"].get<std::string>());
    };
    using Expected = std::pair<int, std::string>;
    const std::string body = with(kHi);
    EXPECT_EQ(error_of(post("/v1/messages", body)), Expected(401, "authentication_error"));
    EXPECT_EQ(error_of(post("/v1/messages", body, "x-api-key: wrong\r\n")),
              Expected(401, "authentication_error"));
    EXPECT_EQ(error_of(get("/v1/messages", key)), Expected(405, "invalid_request_error"));
    EXPECT_EQ(error_of(get("/v1/messages/batches", key)), Expected(404, "not_found_error"));
    EXPECT_EQ(error_of(post("/v1/messages", std::string(3000, ' '), key)),
              Expected(413, "request_too_large"));
    EXPECT_EQ(error_of(post("/v1/messages",
                            R"({"model":"claude","max_tokens":9,)" + std::string(kHi) + "}", key)),
              Expected(404, "not_found_error"));
    core::RejectRequest rejection;
    rejection.reason = core::RejectReason::queue_full;
    rejection.message = "full";
    rejection.retry_after_s = 3;
    service_.reject_all(rejection);
    for (const char* stream : {"true", "false"}) {
        const auto full =
            post("/v1/messages", with(std::string(kHi) + ",\"stream\":" + stream), key);
        EXPECT_EQ(error_of(full), Expected(429, "rate_limit_error"));
        EXPECT_EQ(full.header("retry-after"), "3");
    }
    server_->drain();
    EXPECT_EQ(error_of(post("/v1/messages", body, key)), Expected(503, "overloaded_error"));
    EXPECT_EQ(Json::parse(post("/v1/completions", "{}").body)["error"]["code"], "invalid_api_key")
        << "others see OpenAI's shape";
}

TEST_F(AnthropicTest, APromptThatIsTooLongIsToldInTheWordsThatAgentsRead) {
    const auto message = [&](std::size_t prompt, int answer) {
        const auto response =
            post("/v1/messages", R"({"max_tokens":)" + std::to_string(answer) +
                                     R"(,"messages":[{"role":"user","content":")" +
                                     std::string(prompt, 'x') + "\"}]}");
        EXPECT_EQ(response.status, 400);
        return Json::parse(response.body)["error"]["message"].get<std::string>();
    };
    EXPECT_EQ(message(300, 1), "prompt is too long: 316 tokens > 200 maximum");
    EXPECT_EQ(message(100, 100),
              "input length and `max_tokens` exceed context limit: 116 + 100 > 200, decrease input "
              "length or `max_tokens` and try again");
}

TEST_F(AnthropicTest, AStreamThatBreaksOffSaysWhy) {
    auto c = client();
    c.request("POST", "/v1/messages", with(std::string(kHi) + R"(,"stream":true)"));
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->say("a");
    request->finish(FinishReason::error, "a worker died");
    const auto response = c.read_response();
    const auto all = events(response.body);
    const Json last = Json::parse(all.back());
    EXPECT_EQ(last["type"], "error");
    EXPECT_EQ(last["error"]["message"], "a worker died");
    EXPECT_EQ(last["request_id"], response.header("request-id"));
}

}  // namespace
}  // namespace helix::api::anthropic_test
