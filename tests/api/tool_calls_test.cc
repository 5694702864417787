// Calls of tools and thoughts, read out of what a model says, in answers to chats.

#include "api/completion_request.h"
#include "tool_codec.h"

namespace helix::api::tool_calls_test {
namespace {

using core::FinishReason;
using Json = nlohmann::json;

constexpr const char* kCall =
    "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"at\": \"sky\"}}\n</tool_call>";

TEST_F(ToolCalls, AWholeAnswerHasTheThoughtTheTextAndTheCalls) {
    const std::string said =
        std::string("<think>\nHm.\n</think>\n\nI look.\n") + kCall + "\n" + kCall;
    const Json got = Json::parse(answer(body(), said).body);
    const Json& choice = got["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "tool_calls");
    EXPECT_EQ(choice["message"]["content"], "I look.");
    EXPECT_EQ(choice["message"]["reasoning_content"], "Hm.");
    EXPECT_EQ(choice["message"]["reasoning"], "Hm.");
    const Json& calls = choice["message"]["tool_calls"];
    ASSERT_EQ(calls.size(), 2U);
    for (const Json& call : calls) {
        EXPECT_EQ(call["type"], "function");
        EXPECT_EQ(call["function"]["name"], "look");
        EXPECT_EQ(call["function"]["arguments"], "{\"at\": \"sky\"}");
        EXPECT_EQ(call["id"].get<std::string>().substr(0, 5), "call_");
    }
    EXPECT_NE(calls[0]["id"], calls[1]["id"]);
    // A token is a byte: the thought with what ends it.
    EXPECT_EQ(got["usage"]["completion_tokens_details"]["reasoning_tokens"], 13);
    EXPECT_EQ(got["usage"]["completion_tokens"], said.size() + 1);
}

TEST_F(ToolCalls, AMessageOfCallsAloneHasNoContent) {
    const Json got = Json::parse(answer(body(), kCall).body);
    const Json& message = got["choices"][0]["message"];
    EXPECT_TRUE(message["content"].is_null());
    EXPECT_FALSE(message.contains("reasoning_content"));
    EXPECT_EQ(got["usage"]["completion_tokens_details"]["reasoning_tokens"], 0);
}

TEST_F(ToolCalls, AStreamSaysWhoIsCalledOnceAndThenTheArgumentsAsTheyCome) {
    const auto all =
        chunks(answer(body(",\"stream\":true"), std::string("<think>a</think>b ") + kCall).body);
    std::string content;
    std::string reasoning;
    std::string arguments;
    std::size_t heads = 0;
    std::size_t pieces = 0;
    for (const Json& chunk : all) {
        const Json& delta = chunk["choices"][0]["delta"];
        content += delta.value("content", "");
        reasoning += delta.value("reasoning_content", "");
        EXPECT_EQ(delta.value("reasoning_content", ""), delta.value("reasoning", ""));
        if (!delta.contains("tool_calls")) continue;
        const Json& call = delta["tool_calls"][0];
        EXPECT_EQ(call["index"], 0);
        if (call.contains("id")) {
            ++heads;
            EXPECT_EQ(pieces, 0U);
            EXPECT_EQ(call["type"], "function");
            EXPECT_EQ(call["function"], (Json{{"name", "look"}, {"arguments", ""}}));
            continue;
        }
        EXPECT_FALSE(call["function"].contains("name"));
        arguments += call["function"]["arguments"].get<std::string>();
        ++pieces;
    }
    EXPECT_EQ(content, "b");
    EXPECT_EQ(reasoning, "a");
    EXPECT_EQ(heads, 1U);
    EXPECT_EQ(arguments, "{\"at\": \"sky\"}");
    EXPECT_EQ(pieces, arguments.size()) << "each byte is a token";
    EXPECT_EQ(all.front()["choices"][0]["delta"]["role"], "assistant");
    EXPECT_EQ(all.back()["choices"][0]["finish_reason"], "tool_calls");
}

TEST_F(ToolCalls, WhatBreaksOffIsContentAndNoCall) {
    const std::string said = "<tool_call>{\"name\": \"look\", \"arguments\": {\"at\": sky}}";
    const Json whole = Json::parse(answer(body(), said).body)["choices"][0];
    EXPECT_EQ(whole["finish_reason"], "stop");
    EXPECT_EQ(whole["message"]["content"], said);
    EXPECT_FALSE(whole["message"].contains("tool_calls"));
    const auto all = chunks(answer(body(",\"stream\":true"), said).body);
    std::string content;
    for (const Json& chunk : all) {
        content += chunk["choices"][0]["delta"].value("content", "");
    }
    EXPECT_EQ(content, said);
    EXPECT_EQ(all.back()["choices"][0]["finish_reason"], "stop");
}

TEST_F(ToolCalls, ACallThatIsCutEndsByLength) {
    const std::string said = "<tool_call>{\"name\": \"look\", \"arguments\": {\"at\": \"s";
    const Json whole = Json::parse(answer(body(), said, FinishReason::length).body)["choices"][0];
    EXPECT_EQ(whole["finish_reason"], "length");
    EXPECT_TRUE(whole["message"]["content"].is_null());
    EXPECT_EQ(whole["message"]["tool_calls"][0]["function"]["arguments"], "{\"at\": \"s");
}

TEST_F(ToolCalls, WithoutToolsNothingIsACall) {
    for (const std::string& request :
         {body(",\"tool_choice\":\"none\""),
          std::string(R"({"messages":[{"role":"user","content":"Hi"}]})")}) {
        const Json choice = Json::parse(answer(request, kCall).body)["choices"][0];
        EXPECT_EQ(choice["finish_reason"], "stop");
        EXPECT_EQ(choice["message"]["content"], kCall);
    }
}

TEST_F(ToolCalls, AStopStringInsideACallLeavesItsText) {
    const Json choice = Json::parse(answer(body(",\"stop\":[\"sky\"]"), kCall).body)["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "stop");
    EXPECT_EQ(choice["message"]["content"],
              "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"at\": \"");
}

TEST_F(ToolCalls, EachChoiceHasItsOwnCalls) {
    auto c = client();
    c.request("POST", "/v1/chat/completions", body(",\"n\":2"));
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->say(kCall, 0);
    request->say("No.", 1);
    request->finish(FinishReason::stop);
    const Json choices = Json::parse(c.read_response().body)["choices"];
    EXPECT_EQ(choices[0]["finish_reason"], "tool_calls");
    EXPECT_EQ(choices[1]["finish_reason"], "stop");
    EXPECT_EQ(choices[1]["message"]["content"], "No.");
}

TEST_F(ToolCalls, APromptThatOpensAThoughtIsFollowedByOne) {
    opens_thought_ = true;
    const Json choice = Json::parse(answer(body(), "Hm.</think>Yes.").body)["choices"][0];
    EXPECT_EQ(choice["message"]["reasoning_content"], "Hm.");
    EXPECT_EQ(choice["message"]["content"], "Yes.");
}

// The variables that the template gets, or what is refused.
Json kwargs_of(const std::string& fields) {
    nlohmann::ordered_json request_body = nlohmann::ordered_json::parse(
        R"({"messages":[{"role":"user","content":"x"}],)" + fields + "}");
    RequestLimits limits;
    limits.vocab_size = 10;
    CompletionRequest request;
    const auto error = read_completion_request(Endpoint::chat, request_body, limits, request);
    return error ? Json("refused: " + error->param) : Json(request.kwargs);
}

TEST(Thinking, FieldsReachTheTemplateAndWrongOnesAreRefused) {
    EXPECT_EQ(kwargs_of(R"("enable_thinking":false)"), (Json{{"enable_thinking", false}}));
    EXPECT_EQ(kwargs_of(R"("reasoning_effort":"low")"), (Json{{"reasoning_effort", "low"}}));
    EXPECT_EQ(kwargs_of(R"("reasoning_effort":"none")"),
              (Json{{"enable_thinking", false}, {"thinking", false}}));
    EXPECT_EQ(
        kwargs_of(R"("enable_thinking":true,"chat_template_kwargs":{"enable_thinking":false})"),
        (Json{{"enable_thinking", false}}));
    EXPECT_EQ(kwargs_of(R"("enable_thinking":"false")"), "refused: enable_thinking");
    EXPECT_EQ(kwargs_of(R"("reasoning_effort":3)"), "refused: reasoning_effort");
    EXPECT_EQ(kwargs_of(R"("reasoning_effort":"much")"), "refused: reasoning_effort");
    EXPECT_EQ(kwargs_of(R"("chat_template_kwargs":{"thinking":"yes"})"),
              "refused: chat_template_kwargs.thinking");
    EXPECT_EQ(kwargs_of(R"("functions":[])"), "refused: functions");
    EXPECT_EQ(kwargs_of(R"("function_call":"auto")"), "refused: function_call");
}

TEST(History, CallsThoughtsAndResultsReachTheTemplateAsItWantsThem) {
    nlohmann::ordered_json messages = nlohmann::ordered_json::parse(R"([
        {"role":"user","content":"x"},
        {"role":"assistant","content":null,"reasoning":"hm","tool_calls":[
            {"id":"1","function":{"name":"f","arguments":"{\"a\":1}"}},
            {"id":"2","type":"function","function":{"name":"g","arguments":""}}]},
        {"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"r"}]}])");
    ASSERT_FALSE(normalise_messages(messages, RequestLimits()));
    EXPECT_EQ(messages[1]["reasoning_content"], "hm");
    EXPECT_FALSE(messages[1].contains("reasoning"));
    EXPECT_EQ(messages[1]["tool_calls"][0]["type"], "function");
    EXPECT_EQ(messages[1]["tool_calls"][0]["function"]["arguments"]["a"], 1);
    EXPECT_TRUE(messages[1]["tool_calls"][1]["function"]["arguments"].is_object());
    EXPECT_EQ(messages[2]["content"], "r");
    for (
        const char* wrong :
        {R"([{"role":"assistant","content":"x","reasoning":1}])",
         R"([{"role":"assistant","content":"x","tool_calls":[{"function":{"name":"f","arguments":1}}]}])"}) {
        messages = nlohmann::ordered_json::parse(wrong);
        EXPECT_TRUE(normalise_messages(messages, RequestLimits())) << wrong;
    }
}

}  // namespace
}  // namespace helix::api::tool_calls_test
