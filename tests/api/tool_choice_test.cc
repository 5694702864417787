// Calls that a request demands, and where a grammar begins.

#include "api/completion_request.h"
#include "tool_codec.h"

namespace helix::api::tool_choice_test {
namespace {

using Json = nlohmann::json;

class ToolChoice : public ToolCalls {
  protected:
    // The form of the calls that the workers have to draw; null if the answer is free.
    Json drawn(const std::string& more) {
        const spec::OutputGrammar grammar = asked_of_workers("/v1/chat/completions", body(more));
        within_tokens_ = grammar.within_tokens;
        return grammar.present() ? Json::parse(grammar.text) : Json();
    }
    spec::OutputGrammar asked_of_workers(const std::string& path, const std::string& text) {
        auto c = client();
        c.request("POST", path, text);
        auto request = service_.next();
        EXPECT_TRUE(request) << text;
        if (!request) return {};
        const spec::OutputGrammar grammar = request->request.sampling.grammar;
        request->token(kByteEnd);
        request->finish(core::FinishReason::stop);
        EXPECT_EQ(c.read_response().status, 200);
        return grammar;
    }
    std::string refused(const std::string& more) {
        const auto response = post("/v1/chat/completions", body(more));
        EXPECT_EQ(response.status, 400) << more;
        return Json::parse(response.body)["error"]["message"];
    }
    std::int32_t within_tokens_ = 0;
};

TEST_F(ToolChoice, DemandedCallsAreDrawnInTheModelsForm) {
    EXPECT_EQ(drawn(R"(,"tool_choice":"none")"), Json());
    const Json any = drawn(R"(,"tool_choice":"required","max_tokens":90)");
    EXPECT_EQ(within_tokens_, 90);
    ASSERT_EQ(any["calls"].size(), 1U);
    EXPECT_EQ(any["calls"][0]["before"], "<tool_call>\n{\"name\": \"look\", \"arguments\": ");
    EXPECT_EQ(any["calls"][0]["schema"], Json::parse(R"({"type":"object"})"));
    EXPECT_EQ(any["max"], 0);
    EXPECT_EQ(drawn(R"(,"tool_choice":"required","parallel_tool_calls":false)")["max"], 1);
    EXPECT_GT(within_tokens_, 90) << "as many as the context leaves";
    core::ClusterView small;
    small.capacity_tokens = 64;
    small.serving = true;
    service_.set_view(small);
    drawn(R"(,"tool_choice":"required")");
    EXPECT_LT(within_tokens_, 64) << "and as many as the workers have room for";
    const Json named = drawn(R"(,"tool_choice":{"type":"function","function":{"name":"look"}})");
    EXPECT_EQ(named["max"], 1);
    EXPECT_EQ(named["calls"].size(), 1U);
    constexpr const char* kAllowed = R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{
        "mode":"MODE","tools":[{"type":"function","function":{"name":"look"}}]}})";
    std::string allowed = kAllowed;
    allowed.replace(allowed.find("MODE"), 4, "required");
    EXPECT_EQ(drawn(allowed)["calls"].size(), 1U);
    allowed = kAllowed;
    allowed.replace(allowed.find("MODE"), 4, "auto");
    EXPECT_EQ(drawn(allowed)["trigger"], "<tool_call>");
}

TEST_F(ToolChoice, WithoutAChoiceACallIsHeldToItsSchemaAsSoonAsItBegins) {
    for (const char* choice : {"", R"(,"tool_choice":"auto")"}) {
        const Json may = drawn(choice + std::string(R"(,"max_tokens":70)"));
        EXPECT_EQ(may["trigger"], "<tool_call>");
        EXPECT_EQ(may["calls"].size(), 1U);
        EXPECT_EQ(within_tokens_, 70);
    }
    EXPECT_EQ(drawn(R"(,"ignore_eos":true)"), Json());
    const Json schema = drawn(R"(,"response_format":{"type":"json_schema","json_schema":{
        "name":"x","schema":{"type":"null"}}})");
    EXPECT_EQ(schema, Json::parse(R"({"type":"null"})"));
}

TEST_F(ToolChoice, WhatCannotBeDemandedIsSaid) {
    EXPECT_NE(
        refused(R"(,"tool_choice":{"type":"function","function":{"name":"fly"}})").find("fly"),
        std::string::npos);
    EXPECT_NE(refused(R"(,"tool_choice":"always")").find("always"), std::string::npos);
    EXPECT_NE(refused(R"(,"tool_choice":{"type":"allowed_tools"})").find("mode"),
              std::string::npos);
    EXPECT_NE(refused(R"(,"tool_choice":"required","response_format":{"type":"json_object"})")
                  .find("output format"),
              std::string::npos);
    EXPECT_NE(
        refused(R"(,"tool_choice":"required","use_beam_search":true,"best_of":2,"temperature":0)")
            .find("demanded"),
        std::string::npos);
    EXPECT_NE(refused(R"(,"tool_choice":"required","ignore_eos":true)").find("answer ends"),
              std::string::npos);
    const auto none =
        post("/v1/chat/completions",
             R"({"messages":[{"role":"user","content":"Hi"}],"tool_choice":"required"})");
    EXPECT_EQ(none.status, 400) << none.body;
}

constexpr const char* kSchema =
    R"({"messages":[{"role":"user","content":"Hi"}],"response_format":{"type":"json_object"})";

TEST_F(ToolChoice, AGrammarBeginsBehindTheThought) {
    const std::string path = "/v1/chat/completions";
    const spec::Thought free = asked_of_workers(path, std::string(kSchema) + "}").thought;
    EXPECT_EQ(free.open, "<think>");
    EXPECT_EQ(free.close, "</think>");
    EXPECT_EQ(free.max_tokens, -1);
    const auto plain = asked_of_workers(path, body(R"(,"tool_choice":"none")"));
    EXPECT_FALSE(plain.present());
    EXPECT_EQ(plain.thought, spec::Thought{});
    EXPECT_EQ(asked_of_workers(path, body()).thought.open, "<think>");
    EXPECT_EQ(asked_of_workers(path, body(R"(,"tool_choice":"required")")).thought.open, "<think>");
    EXPECT_EQ(asked_of_workers("/v1/completions", R"({"prompt":"x","guided_regex":"a+"})").thought,
              spec::Thought{});
}

TEST_F(ToolChoice, BehindAPromptThatOpensTheThoughtItHasToEnd) {
    opens_thought_ = true;
    const auto grammar =
        asked_of_workers("/v1/chat/completions", body(R"(,"tool_choice":"required")"));
    EXPECT_EQ(grammar.thought.open, "");
    EXPECT_EQ(grammar.thought.close, "</think>");
}

TEST_F(ToolChoice, AThoughtMayHaveOnlySoManyTokens) {
    for (const char* name : {"thinking_token_budget", "thinking_budget_tokens"}) {
        const auto grammar =
            asked_of_workers("/v1/chat/completions",
                             body(",\"tool_choice\":\"none\",\"" + std::string(name) + "\":12"));
        EXPECT_TRUE(grammar.present());
        EXPECT_EQ(grammar.kind, spec::OutputGrammar::Kind::none);
        EXPECT_EQ(grammar.thought.max_tokens, 12);
        EXPECT_FALSE(asked_of_workers("/v1/chat/completions", body(",\"tool_choice\":\"none\",\"" +
                                                                   std::string(name) + "\":-1"))
                         .present());
    }
    const auto message = asked_of_workers(
        "/v1/messages", R"({"max_tokens":50,"messages":[{"role":"user","content":"Hi"}],
                           "thinking":{"type":"enabled","budget_tokens":20}})");
    EXPECT_EQ(message.thought.max_tokens, 20);
    EXPECT_NE(refused(R"(,"thinking_token_budget":-2)").find("thinking_token_budget"),
              std::string::npos);
    EXPECT_EQ(post("/v1/messages", R"({"max_tokens":50,"messages":[{"role":"user","content":"Hi"}],
                   "thinking":{"type":"disabled","budget_tokens":20}})")
                  .status,
              400);
}

TEST_F(ToolChoice, ChannelsOfHarmonyAreThoughtsAndAnswers) {
    form_ = "harmony";
    const auto budget = asked_of_workers("/v1/chat/completions",
                                         R"({"messages":[{"role":"user","content":"Hi"}],
        "thinking_token_budget":9,"response_format":{"type":"json_object"}})");
    EXPECT_EQ(budget.kind, spec::OutputGrammar::Kind::json_object);
    EXPECT_EQ(budget.thought.open, "<|channel|>analysis<|message|>");
    EXPECT_EQ(budget.thought.close, "<|end|><|start|>assistant<|channel|>final<|message|>");
    EXPECT_EQ(budget.thought.max_tokens, 9);
    const auto free =
        asked_of_workers("/v1/chat/completions", body(R"(,"thinking_token_budget":9)"));
    EXPECT_EQ(free.kind, spec::OutputGrammar::Kind::tool_calls);
    EXPECT_EQ(free.thought.close, "<|end|><|start|>assistant");
}

TEST_F(ToolChoice, NamesThatTheFormCannotReadBackAreRefused) {
    form_ = "kimi_k2";
    for (const char* choice : {"", R"(,"tool_choice":"required")"}) {
        std::string odd = body(choice);
        odd.replace(odd.find("\"look\""), 6, "\"look up\"");
        const auto response = post("/v1/chat/completions", odd);
        EXPECT_EQ(response.status, 400) << response.body;
        EXPECT_NE(response.body.find("look up"), std::string::npos) << response.body;
        std::string dotted = body(choice);
        dotted.replace(dotted.find("\"look\""), 6, "\"mcp/look.up\"");
        EXPECT_TRUE(asked_of_workers("/v1/chat/completions", dotted).present());
    }
}

}  // namespace
}  // namespace helix::api::tool_choice_test
