// Ollama's endpoints, from the request to what the service gets and back.

#include "api/protocols/ollama_request.h"
#include "api/writers/ollama_stream.h"
#include "api_fixture.h"

namespace helix::api::ollama_test {
namespace {

using core::FinishReason;
using text::ContentText;
using text::OutputPart;
using text::ReasoningText;
using text::ToolCallDelta;

constexpr const char* kTime = "2009-02-13T23:31:30Z";  // of the fixture's clock

class OllamaTest : public ApiTest {
  protected:
    static std::vector<Json> lines(const std::string& body) {
        std::vector<Json> all;
        for (std::size_t at = 0; at < body.size();) {
            const std::size_t end = body.find('\n', at);
            EXPECT_NE(end, std::string::npos) << body;
            all.push_back(Json::parse(body.substr(at, end - at)));
            at = end + 1;
        }
        return all;
    }
    // Takes the times out, which differ from run to run. That they are there is checked.
    static Json without_times(Json last) {
        for (const char* name :
             {"total_duration", "load_duration", "prompt_eval_duration", "eval_duration"}) {
            EXPECT_TRUE(last[name].is_number_integer() && last[name] >= 0) << name;
            last.erase(name);
        }
        return last;
    }
    FakeRequest asked(const std::string& path, const std::string& body) {
        auto c = client();
        c.request("POST", path, body);
        auto request = service_.next();
        EXPECT_TRUE(request);
        if (!request) return {};
        request->finish(FinishReason::stop);
        return *request;
    }
    static constexpr const char* kHi = R"("messages":[{"role":"user","content":"Hi"}])";
};

TEST_F(OllamaTest, AChatIsStreamedByDefaultLineByLine) {
    auto c = client();
    c.request("POST", "/api/chat", std::string("{\"model\":\"gpt-x\",") + kHi + "}");
    auto request = service_.next();
    ASSERT_TRUE(request);
    EXPECT_EQ(request->prompt(), "user:Hi\nassistant:");
    EXPECT_EQ(request->request.max_tokens, 0) << "as many as there is room for";
    request->route();
    request->say("ab");
    request->token(kByteEnd);
    request->finish(FinishReason::stop);
    const auto response = c.read_response();
    EXPECT_EQ(response.header("content-type"), "application/x-ndjson");
    const auto all = lines(response.body);
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(all[0], (Json{{"model", "gpt-x"},
                            {"created_at", kTime},
                            {"message", {{"role", "assistant"}, {"content", "a"}}},
                            {"done", false}}));
    EXPECT_EQ(all[1]["message"]["content"], "b");
    EXPECT_EQ(without_times(all[2]), (Json{{"model", "gpt-x"},
                                           {"created_at", kTime},
                                           {"message", {{"role", "assistant"}, {"content", ""}}},
                                           {"done", true},
                                           {"done_reason", "stop"},
                                           {"prompt_eval_count", 18},
                                           {"eval_count", 3}}));
}

TEST_F(OllamaTest, AWholeAnswerHasTheTextAndTheCounts) {
    auto c = client();
    c.request("POST", "/api/generate",
              R"({"model":"byte-model","prompt":"Hi","system":"Be brief.","stream":false})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    EXPECT_EQ(request->prompt(), "system:Be brief.\nuser:Hi\nassistant:");
    request->route();
    request->say("ab");
    request->finish(FinishReason::length);
    const auto response = c.read_response();
    EXPECT_EQ(response.header("content-type"), "application/json");
    EXPECT_EQ(without_times(Json::parse(response.body)), (Json{{"model", "byte-model"},
                                                               {"created_at", kTime},
                                                               {"response", "ab"},
                                                               {"done", true},
                                                               {"done_reason", "length"},
                                                               {"prompt_eval_count", 35},
                                                               {"eval_count", 2}}));
}

TEST_F(OllamaTest, ARawPromptIsContinuedAsItIs) {
    const FakeRequest request = asked("/api/generate", R"({"prompt":"One day","raw":true})");
    EXPECT_EQ(request.prompt(), "One day");
    EXPECT_EQ(request.request.max_tokens, 0);
}

TEST_F(OllamaTest, OptionsReachTheSampler) {
    const FakeRequest asked_for = asked("/api/chat", std::string("{") + kHi + R"(,"options":{
        "num_predict":7,"temperature":0.5,"top_k":3,"top_p":0.25,"min_p":0.125,"seed":9,
        "stop":["x"],"repeat_penalty":1.5,"presence_penalty":0.5,"frequency_penalty":0.75,
        "num_ctx":4096,"mirostat":1},"format":"json","keep_alive":"5m","think":false})");
    const core::Request& request = asked_for.request;
    EXPECT_EQ(request.max_tokens, 7);
    EXPECT_EQ(request.sampling.temperature, 0.5F);
    EXPECT_EQ(request.sampling.top_k, 3);
    EXPECT_EQ(request.sampling.top_p, 0.25F);
    EXPECT_EQ(request.sampling.min_p, 0.125F);
    EXPECT_EQ(request.sampling.seed, 9U);
    EXPECT_EQ(request.sampling.repetition_penalty, 1.5F);
    EXPECT_EQ(request.sampling.presence_penalty, 0.5F);
    EXPECT_EQ(request.sampling.frequency_penalty, 0.75F);
    EXPECT_EQ(request.sampling.grammar.kind, spec::OutputGrammar::Kind::json_object);
    const FakeRequest other = asked("/api/chat", std::string("{") + kHi +
                                                     R"(,"options":{"num_predict":-2},
        "format":{"type":"object","properties":{"a":{"type":"integer"}}}})");
    EXPECT_EQ(other.request.max_tokens, 0);
    EXPECT_EQ(other.request.sampling.grammar.kind, spec::OutputGrammar::Kind::json_schema);
}

TEST_F(OllamaTest, AHistoryWithToolsReachesTheTemplate) {
    const FakeRequest request = asked("/api/chat", R"({"tools":[{"type":"function",
        "function":{"name":"look"}}],"messages":[{"role":"user","content":"go"},
        {"role":"assistant","content":"","thinking":"hm","tool_calls":[
          {"function":{"name":"look","arguments":{"at":"sky"}}}]},
        {"role":"tool","tool_name":"look","content":"blue"}]})");
    EXPECT_EQ(request.prompt(),
              "tools:[{\"type\":\"function\",\"function\":{\"name\":\"look\"}}]\n"
              "user:go\nassistant:\ntool:blue\nassistant:");
}

TEST_F(OllamaTest, WhoAsksForNothingIsToldThatTheModelIsThere) {
    EXPECT_EQ(Json::parse(post("/api/chat", R"({"model":"gpt-x","messages":[]})").body),
              (Json{{"model", "gpt-x"},
                    {"created_at", kTime},
                    {"message", {{"role", "assistant"}, {"content", ""}}},
                    {"done", true},
                    {"done_reason", "load"}}));
    EXPECT_EQ(Json::parse(post("/api/generate", "{}").body), (Json{{"model", "byte-model"},
                                                                   {"created_at", kTime},
                                                                   {"response", ""},
                                                                   {"done", true},
                                                                   {"done_reason", "load"}}));
    EXPECT_EQ(post("/api/generate", R"({"model":"other"})").status, 404);
}

TEST_F(OllamaTest, ErrorsAreOneText) {
    const std::string hi = kHi;
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"{" + hi + R"(,"options":{"temperature":"hot"}})", "'options.temperature': expected"},
        {"{" + hi + R"(,"options":{"repeat_penalty":-1}})", "'options.repeat_penalty': expected"},
        {"{" + hi + R"(,"options":{"num_predict":"x"}})", "'options.num_predict': expected"},
        {"{" + hi + R"(,"options":7})", "'options': expected an object"},
        {"{" + hi + R"(,"format":"xml"})", "'format': expected"},
        {"{" + hi + R"(,"format":{"not":{}}})", "'format.json_schema.schema'"},
        {"{" + hi + R"(,"think":7})", "'think': expected"},
        {R"({"messages":[{"role":"emperor"}]})", "'messages[0].role': expected"},
        {R"({"messages":[{"role":"user","content":"x","images":["aGk="]}]})",
         "'messages[0].images': this model takes text only"},
        {R"({"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]}]})",
         "'messages[0].tool_calls[0].function.arguments': expected an object"},
    };
    for (const auto& [body, message] : cases) {
        const auto response = post("/api/chat", body);
        EXPECT_EQ(response.status, 400) << body;
        const Json error = Json::parse(response.body);
        EXPECT_EQ(error.size(), 1U);
        EXPECT_TRUE(error["error"].get<std::string>().starts_with(message)) << error;
    }
    const auto refused = post("/api/generate", R"({"prompt":"a","suffix":"b"})");
    EXPECT_EQ(refused.body, R"({"error":"'suffix': is not supported"})");
    EXPECT_EQ(post("/api/pull", "{}").status, 404);
    EXPECT_TRUE(Json::parse(post("/api/pull", "{}").body)["error"].is_string());
}

TEST_F(OllamaTest, AStreamThatBreaksOffEndsWithTheError) {
    auto c = client();
    c.request("POST", "/api/chat", std::string("{") + kHi + "}");
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->say("a");
    request->finish(FinishReason::error, "a worker died");
    EXPECT_EQ(lines(c.read_response().body).back(), (Json{{"error", "a worker died"}}));
}

TEST_F(OllamaTest, ModelsAreListedAndShown) {
    model_.architecture = "llama";
    model_.quantization = "Q4_K";
    model_.n_params = 1'234'000'000;
    model_.size_bytes = 700;
    const Json tags = Json::parse(get("/api/tags").body)["models"];
    ASSERT_EQ(tags.size(), 2U);
    EXPECT_EQ(tags[0]["name"], "byte-model");
    EXPECT_EQ(tags[0]["size"], 700);
    EXPECT_EQ(tags[0]["modified_at"], "2023-11-14T22:13:20Z");
    EXPECT_EQ(tags[0]["digest"].get<std::string>().size(), 64U);
    EXPECT_EQ(tags[0]["details"], (Json{{"parent_model", ""},
                                        {"format", "gguf"},
                                        {"family", "llama"},
                                        {"families", Json::array({"llama"})},
                                        {"parameter_size", "1.2B"},
                                        {"quantization_level", "Q4_K"}}));
    EXPECT_EQ(tags[1]["model"], "gpt-x");
    EXPECT_EQ(tags[1]["digest"], tags[0]["digest"]);
    const Json running = Json::parse(get("/api/ps").body)["models"];
    EXPECT_EQ(running[0]["context_length"], 200);
    EXPECT_EQ(running[0]["expires_at"], "2009-02-14T23:31:30Z");
    const Json shown = Json::parse(post("/api/show", R"({"model":"gpt-x"})").body);
    EXPECT_EQ(shown["model_info"]["llama.context_length"], 200);
    EXPECT_EQ(shown["capabilities"], Json::array({"completion"}));
    EXPECT_EQ(post("/api/show", R"({"name":"byte-model"})").status, 200);
    EXPECT_EQ(post("/api/show", R"({"model":"other"})").status, 404);
    EXPECT_EQ(post("/api/show", "{}").body, R"({"error":"'model': is required"})");
    EXPECT_EQ(Json::parse(get("/api/version").body)["version"], options_.version);
}

TEST(OllamaRequest, ThoughtsCallsAndLevelsAreWrittenAsChatKnowsThem) {
    using Ordered = nlohmann::ordered_json;
    auto body = Ordered::parse(R"({"think":"low","messages":[
        {"role":"assistant","thinking":"hm","tool_calls":[
          {"function":{"name":"f","arguments":{}}},{"function":{"name":"g","arguments":{"a":1}}}]},
        {"role":"tool","tool_name":"f","content":"x"},{"role":"tool","content":"y"}]})");
    Ordered chat;
    OllamaAsk ask = OllamaAsk::nothing;
    const auto error = openai_body_of_ollama_chat(body, chat, ask);
    ASSERT_FALSE(error) << error->message;
    EXPECT_EQ(ask, OllamaAsk::chat);
    EXPECT_EQ(chat, Ordered::parse(R"({"stream":true,"max_tokens":-1,
        "chat_template_kwargs":{"enable_thinking":true,"thinking":true},"reasoning_effort":"low",
        "messages":[{"role":"assistant","content":"","reasoning_content":"hm","tool_calls":[
          {"id":"call_0","type":"function","function":{"name":"f","arguments":"{}"}},
          {"id":"call_1","type":"function","function":{"name":"g","arguments":"{\"a\":1}"}}]},
        {"role":"tool","content":"x","tool_call_id":"call_0","name":"f"},
        {"role":"tool","content":"y","tool_call_id":"call_1"}]})"));
}

TEST(OllamaStream, ACallComesWholeAndThoughtsHaveTheirField) {
    const AnswerHead head{.id = "x", .created = 0, .model = "m", .request_id = {}};
    OllamaStream writer(OllamaForm::chat, head);
    std::string out;
    writer.begin(out, {});
    writer.add_parts(out, 0, {ReasoningText{"hm"}, ContentText{"I"}}, {});
    writer.add_parts(out, 0, {ToolCallDelta{0, "c", "f", "{\"a\":"}}, {});
    writer.add_parts(out, 0,
                     {ToolCallDelta{0, "", "", "1}", true}, ToolCallDelta{1, "d", "g", "", true},
                      ToolCallDelta{2, "e", "h", "{"}, ContentText{"{!"}},
                     {});
    writer.finish(out, 0, {}, {});
    writer.end(out, {});
    const std::string begin =
        R"({"model":"m","created_at":"1970-01-01T00:00:00Z","message":{"role":"assistant","content":)";
    EXPECT_EQ(
        out,
        begin + R"("","thinking":"hm"},"done":false})" + "\n" + begin + R"("I"},"done":false})" +
            "\n" + begin +
            R"("","tool_calls":[{"id":"c","function":{"index":0,"name":"f","arguments":{"a":1}}}]},"done":false})" +
            "\n" + begin +
            R"("","tool_calls":[{"id":"d","function":{"index":1,"name":"g","arguments":{}}}]},"done":false})" +
            // What broke off is no call after all.
            "\n" + begin + R"("{!"},"done":false})" + "\n" + begin +
            R"(""},"done":true,"done_reason":"stop","total_duration":0,"load_duration":0,"prompt_eval_count":0,"prompt_eval_duration":0,"eval_count":0,"eval_duration":0})" +
            "\n");
}

TEST(OllamaWhole, AllIsInOneObject) {
    WholeAnswer answer;
    answer.choices.emplace_back();
    answer.choices[0].parts = {ReasoningText{"hm"}, ContentText{"I"},
                               ToolCallDelta{0, "c", "f", "{\"a\":1}"}};
    const AnswerHead head{.id = "x", .created = 0, .model = "m", .request_id = {}};
    const auto made = nlohmann::json::parse(OllamaWhole(OllamaForm::chat, head).write(answer));
    EXPECT_EQ(made["message"], nlohmann::json::parse(R"({"role":"assistant","content":"I",
        "thinking":"hm","tool_calls":[{"id":"c","function":{"index":0,"name":"f",
        "arguments":{"a":1}}}]})"));
}

}  // namespace
}  // namespace helix::api::ollama_test
