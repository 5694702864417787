// Requests as coding agents send them: long instructions, forty tools, a history of calls and
// results, hints for caches and fields that nobody else knows. Each reaches the model whole.

#include "tool_codec.h"

namespace helix::api::agent_requests_test {
namespace {

using Json = nlohmann::json;

constexpr int kTools = 40;

std::string instructions() {
    std::string text = "You are an agent.\n";
    for (int i = 0; i < 600; ++i) text += "Rule " + std::to_string(i) + ": be careful \xC3\xA9.\n";
    return text + "The last rule.";
}

Json parameters_of_tool() {
    return Json::parse(R"({"type":"object","properties":{"path":{"type":"string",
        "description":"Where"},"limit":{"type":"integer","minimum":1}},"required":["path"],
        "additionalProperties":false})");
}

Json cached(Json block) {
    block["cache_control"] = {{"type", "ephemeral"}, {"ttl", "1h"}};
    return block;
}

Json text_block(const char* type, const std::string& text) {
    return {{"type", type}, {"text", text}};
}

class AgentRequests : public ToolCalls {
  protected:
    AgentRequests() { model_.context_length = 1 << 20; }

    // The prompt, after the model has called a tool; the answer is events of the protocol.
    std::string prompt_of(const std::string& path, const Json& request_body) {
        auto c = client();
        c.request("POST", path, request_body.dump());
        auto request = service_.next();
        EXPECT_TRUE(request);
        if (!request) return {};
        const auto& tokens = request->request.prompt;
        grammar_ = request->request.sampling.grammar;
        request->say("I look.\n<tool_call>\n{\"name\": \"tool_7\", \"arguments\": ");
        request->say("{\"path\": \"a.cc\"}}\n</tool_call>");
        request->token(kByteEnd);
        request->finish(core::FinishReason::stop);
        const auto response = c.read_response();
        EXPECT_EQ(response.status, 200) << response.body.substr(0, 500);
        answer_ = response.body;
        return ByteCodec().decode(tokens, false);
    }

    void expect_whole(const std::string& prompt) {
        EXPECT_NE(prompt.find(instructions()), std::string::npos) << "the instructions";
        for (int i = 0; i < kTools; ++i) {
            const std::string name = "\"name\":\"tool_" + std::to_string(i) + "\"";
            EXPECT_NE(prompt.find(name), std::string::npos) << name;
        }
        const std::string end =
            "user:Fix it\nassistant:I read.\ntool:int main\nuser:Go on\nassistant:";
        ASSERT_GT(prompt.size(), end.size());
        EXPECT_EQ(prompt.substr(prompt.size() - end.size()), end);
        EXPECT_EQ(grammar_.kind, spec::OutputGrammar::Kind::tool_calls);
        EXPECT_EQ(Json::parse(grammar_.text)["calls"].size(), static_cast<std::size_t>(kTools));
        EXPECT_NE(answer_.find("tool_7"), std::string::npos);
    }

    spec::OutputGrammar grammar_;
    std::string answer_;
};

TEST_F(AgentRequests, InMessages) {
    Json body = {{"model", "byte-model"},
                 {"max_tokens", 32000},
                 {"stream", true},
                 {"temperature", 1},
                 {"metadata", {{"user_id", "user_1_session_2"}}},
                 {"thinking", {{"type", "adaptive"}}},
                 {"context_management", {{"edits", Json::array({{{"type", "clear_thinking"}}})}}},
                 {"betas", Json::array({"interleaved-thinking"})}};
    body["system"] =
        Json::array({text_block("text", "x-anthropic-billing-header: cc_version=2; cch=12;"),
                     cached(text_block("text", instructions()))});
    for (int i = 0; i < kTools; ++i) {
        body["tools"].push_back({{"name", "tool_" + std::to_string(i)},
                                 {"description", std::string(1500, 'd')},
                                 {"input_schema", parameters_of_tool()},
                                 {"eager_input_streaming", true}});
    }
    body["tools"].back() = cached(body["tools"].back());
    const Json use = {
        {"type", "tool_use"}, {"id", "toolu_1"}, {"name", "tool_1"}, {"input", {{"path", "b.cc"}}}};
    const Json result = {{"type", "tool_result"},
                         {"tool_use_id", "toolu_1"},
                         {"content", Json::array({text_block("text", "int main")})}};
    body["messages"] = Json::array(
        {{{"role", "user"}, {"content", Json::array({text_block("text", "Fix it")})}},
         {{"role", "assistant"},
          {"content", Json::array({{{"type", "thinking"}, {"thinking", "hm"}, {"signature", "s"}},
                                   text_block("text", "I read."),
                                   use})}},
         {{"role", "user"},
          {"content", Json::array({result, cached(text_block("text", "Go on"))})}}});
    expect_whole(prompt_of("/v1/messages?beta=true", body));
    EXPECT_NE(answer_.find("\"stop_reason\":\"tool_use\""), std::string::npos) << answer_;
}

TEST_F(AgentRequests, InResponses) {
    Json body = {{"model", "byte-model"},
                 {"instructions", instructions()},
                 {"stream", true},
                 {"store", false},
                 {"tool_choice", "auto"},
                 {"parallel_tool_calls", false},
                 {"include", Json::array({"reasoning.encrypted_content"})},
                 {"prompt_cache_key", "0199"},
                 {"reasoning", {{"effort", "medium"}, {"summary", "auto"}}},
                 {"text", {{"verbosity", "low"}}},
                 {"client_metadata", {{"x", "y"}}}};
    for (int i = 0; i < kTools; ++i) {
        body["tools"].push_back({{"type", "function"},
                                 {"name", "tool_" + std::to_string(i)},
                                 {"description", std::string(1500, 'd')},
                                 {"strict", false},
                                 {"parameters", parameters_of_tool()}});
    }
    const auto message = [](const char* role, const char* type, const std::string& text) {
        return Json{{"type", "message"},
                    {"role", role},
                    {"content", Json::array({text_block(type, text)})}};
    };
    body["input"] = Json::array(
        {message("user", "input_text", "Fix it"),
         {{"type", "reasoning"}, {"summary", Json::array()}, {"encrypted_content", nullptr}},
         message("assistant", "output_text", "I read."),
         {{"type", "function_call"},
          {"call_id", "call_1"},
          {"name", "tool_1"},
          {"arguments", R"({"path":"b.cc"})"}},
         {{"type", "function_call_output"}, {"call_id", "call_1"}, {"output", "int main"}},
         message("user", "input_text", "Go on")});
    expect_whole(prompt_of("/v1/responses", body));
    EXPECT_NE(answer_.find(R"("arguments":"{\"path\": \"a.cc\"}")"), std::string::npos) << answer_;
}

TEST_F(AgentRequests, InChat) {
    Json body = {{"model", "byte-model"},
                 {"max_tokens", 32000},
                 {"stream", true},
                 {"stream_options", {{"include_usage", true}}},
                 {"temperature", 0},
                 {"store", false},
                 {"prompt_cache_key", "k"},
                 {"verbosity", "low"},
                 {"reasoning_effort", "medium"},
                 {"usage", {{"include", true}}}};
    for (int i = 0; i < kTools; ++i) {
        body["tools"].push_back({{"type", "function"},
                                 {"function",
                                  {{"name", "tool_" + std::to_string(i)},
                                   {"description", std::string(1500, 'd')},
                                   {"parameters", parameters_of_tool()}}}});
    }
    const Json call = {{"id", "call_1"},
                       {"type", "function"},
                       {"index", 0},
                       {"function", {{"name", "tool_1"}, {"arguments", R"({"path":"b.cc"})"}}}};
    body["messages"] = Json::array(
        {{{"role", "system"},
          {"content", Json::array({cached(text_block("text", instructions()))})}},
         {{"role", "user"}, {"content", "Fix it"}},
         {{"role", "assistant"},
          {"content", "I read."},
          {"reasoning_content", "hm"},
          {"refusal", nullptr},
          {"tool_calls", Json::array({call})}},
         {{"role", "tool"},
          {"tool_call_id", "call_1"},
          {"name", "tool_1"},
          {"content", Json::array({text_block("text", "int main")})}},
         {{"role", "user"}, {"content", Json::array({cached(text_block("text", "Go on"))})}}});
    expect_whole(prompt_of("/v1/chat/completions", body));
    EXPECT_NE(answer_.find("\"finish_reason\":\"tool_calls\""), std::string::npos) << answer_;
}

}  // namespace
}  // namespace helix::api::agent_requests_test
