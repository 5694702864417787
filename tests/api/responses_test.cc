// OpenAI's /v1/responses, from the request to what the service gets and back.

#include "api/protocols/responses_request.h"
#include "api/writers/responses_stream.h"
#include "api_fixture.h"
#include "base/temp_folder.h"

namespace helix::api::responses_test {
namespace {

using core::FinishReason;
using text::ContentText;
using text::OutputPart;
using text::ReasoningText;
using text::ToolCallDelta;

class ResponsesTest : public ApiTest {
  protected:
    std::string prompt_of(const std::string& body) {
        auto c = client();
        c.request("POST", "/v1/responses", body);
        auto request = service_.next();
        if (!request) return "nothing was asked";
        request->finish(FinishReason::stop);
        return request->prompt();
    }
};

TEST_F(ResponsesTest, AResponseIsAnsweredWholeAndRepeatsItsSettings) {
    auto c = client();
    c.request("POST", "/v1/responses",
              R"({"model":"byte-model","input":"Hi","instructions":"Be brief.","temperature":0.5,
                  "max_output_tokens":9,"metadata":{"a":"b"},"store":true,"include":["x"]})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    EXPECT_EQ(request->prompt(), "system:Be brief.\nuser:Hi\nassistant:");
    EXPECT_EQ(request->request.max_tokens, 9);
    EXPECT_EQ(request->request.sampling.temperature, 0.5F);
    request->route(16);
    request->say("Yes");
    request->finish(FinishReason::stop);
    Json made = Json::parse(c.read_response().body);
    const std::string id = made["id"];
    EXPECT_TRUE(id.starts_with("resp_"));
    EXPECT_EQ(made["output"][0]["id"], "msg_" + id.substr(5) + "_0");
    made["output"][0].erase("id");
    made.erase("id");
    EXPECT_EQ(made, Json::parse(R"({"object":"response","created_at":1234567890,
        "status":"completed","error":null,"incomplete_details":null,"model":"byte-model",
        "background":false,"store":false,"previous_response_id":null,"instructions":"Be brief.",
        "max_output_tokens":9,"metadata":{"a":"b"},"parallel_tool_calls":true,
        "reasoning":{"effort":null,"summary":null},"temperature":0.5,
        "text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_logprobs":0,
        "top_p":1.0,"truncation":"disabled","user":null,
        "output":[{"type":"message","status":"completed","role":"assistant",
          "content":[{"type":"output_text","text":"Yes","annotations":[],"logprobs":[]}]}],
        "usage":{"input_tokens":35,"input_tokens_details":{"cached_tokens":16},"output_tokens":3,
          "output_tokens_details":{"reasoning_tokens":0},"total_tokens":38}})"));
}

TEST_F(ResponsesTest, AStreamHasItsEventsInOrderAndNumbered) {
    auto c = client();
    c.request("POST", "/v1/responses", R"({"input":"Hi","stream":true,"max_output_tokens":2})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->route();
    request->say("ab");
    request->finish(FinishReason::length);
    const auto response = c.read_response();
    EXPECT_EQ(response.header("content-type"), "text/event-stream");
    std::vector<std::string> types;
    Json last;
    for (const std::string& event : events(response.body)) {
        last = Json::parse(event);
        EXPECT_EQ(last["sequence_number"], types.size());
        types.push_back(last["type"]);
        EXPECT_NE(response.body.find("event: " + types.back() + "\ndata: " + event),
                  std::string::npos);
    }
    EXPECT_EQ(types,
              (std::vector<std::string>{"response.created", "response.in_progress",
                                        "response.output_item.added", "response.content_part.added",
                                        "response.output_text.delta", "response.output_text.delta",
                                        "response.output_text.done", "response.content_part.done",
                                        "response.output_item.done", "response.incomplete"}));
    EXPECT_EQ(last["response"]["status"], "incomplete");
    EXPECT_EQ(last["response"]["incomplete_details"]["reason"], "max_output_tokens");
    EXPECT_EQ(last["response"]["output"][0]["content"][0]["text"], "ab");
    EXPECT_EQ(last["response"]["usage"]["output_tokens"], 2);
}

TEST_F(ResponsesTest, ItemsBecomeMessagesOfTheChat) {
    EXPECT_EQ(prompt_of(R"({"input":[
        {"role":"developer","content":"A"},
        {"role":"user","content":[{"type":"input_text","text":"go"}]},
        {"type":"reasoning","id":"rs_1","summary":[],
         "content":[{"type":"reasoning_text","text":"hm"}]},
        {"type":"message","role":"assistant","id":"msg_1","status":"completed",
         "content":[{"type":"output_text","text":"I look","annotations":[]}]},
        {"type":"function_call","call_id":"c1","name":"look","arguments":"{\"at\":\"sky\"}"},
        {"type":"function_call","call_id":"c2","name":"look","arguments":"{}"},
        {"type":"function_call_output","call_id":"c1","output":"blue"},
        {"type":"function_call_output","call_id":"c2",
         "output":[{"type":"input_text","text":"red"}]},
        {"role":"user","content":"and?"}],
        "tools":[{"type":"function","name":"look","description":"Looks.","strict":true,
                  "parameters":{"type":"object"}}]})"),
              "tools:" +
                  nlohmann::ordered_json::parse(R"([{"type":"function","function":{"name":"look",
        "description":"Looks.","parameters":{"type":"object"},"strict":true}}])")
                      .dump() +
                  "\ndeveloper:A\nuser:go\nassistant:I look\ntool:blue\ntool:red\nuser:and?\n"
                  "assistant:");
}

TEST_F(ResponsesTest, WrongFieldsAreNamed) {
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"{}", "input"},
        {R"({"input":7})", "input"},
        {R"({"input":[]})", "input"},
        {R"({"input":[{"role":"emperor","content":"x"}]})", "input[0].role"},
        {R"({"input":[{"role":"user"}]})", "input[0].content"},
        {R"({"input":[{"type":"item_reference","id":"x"}]})", "input[0].type"},
        {R"({"input":[{"type":"function_call","name":"f"}]})", "input[0].call_id"},
        {R"({"input":"x","max_output_tokens":0})", "max_output_tokens"},
        {R"({"input":"x","temperature":"hot"})", "temperature"},
        {R"({"input":"x","instructions":[]})", "instructions"},
        {R"({"input":"x","tools":[{"type":"web_search"}]})", "tools[0].type"},
        {R"({"input":"x","tool_choice":{"type":"maybe"}})", "tool_choice"},
        {R"({"input":"x","text":{"format":{"type":"xml"}}})", "text.format"},
        {R"({"input":"x","text":{"format":{"type":"json_schema","schema":{"not":{}}}}})",
         "text.format.schema"},
        {R"({"input":"x","background":true})", "background"},
        {R"({"input":"x","previous_response_id":"resp_1"})", "previous_response_id"},
    };
    auto c = client();
    for (const auto& [body, param] : cases) {
        c.request("POST", "/v1/responses", body);
        const auto response = c.read_response();
        EXPECT_EQ(response.status, 400) << body;
        const Json error = Json::parse(response.body)["error"];
        EXPECT_EQ(error["param"], param) << error;
        EXPECT_TRUE(error["message"].get<std::string>().starts_with("'" + param + "'")) << error;
    }
}

TEST_F(ResponsesTest, AStreamThatBreaksOffFails) {
    auto c = client();
    c.request("POST", "/v1/responses", R"({"input":"Hi","stream":true})");
    auto request = service_.next();
    ASSERT_TRUE(request);
    request->say("a");
    request->finish(FinishReason::error, "a worker died");
    const auto all = events(c.read_response().body);
    ASSERT_GE(all.size(), 2U);
    const Json failed = Json::parse(all[all.size() - 2]);
    EXPECT_EQ(failed["type"], "response.failed");
    EXPECT_EQ(failed["response"]["status"], "failed");
    EXPECT_EQ(failed["response"]["error"]["message"], "a worker died");
    const Json error = Json::parse(all.back());
    EXPECT_EQ(error["type"], "error");
    EXPECT_EQ(error["message"], "a worker died");
    EXPECT_EQ(error["error"]["message"], "a worker died");
}

class StoredResponsesTest : public ResponsesTest {
  protected:
    StoredResponsesTest() {
        options_.jobs = JobOptions{};
        options_.jobs->place.folder = folder_.path() + "/state";
    }
    // The answer to a body, which says this text.
    Json answer(const std::string& body, const std::string& text, std::string* prompt = nullptr) {
        auto c = client();
        c.request("POST", "/v1/responses", body);
        auto request = service_.next();
        EXPECT_TRUE(request);
        if (!request) return {};
        if (prompt != nullptr) *prompt = request->prompt();
        request->say(text);
        request->finish(FinishReason::stop);
        const auto response = c.read_response();
        if (response.header("content-type") == "application/json") {
            return Json::parse(response.body);
        }
        return Json::parse(events(response.body).back())["response"];
    }
    net::TestClient::Response remove(const std::string& path) {
        auto c = client();
        c.request("DELETE", path);
        return c.read_response();
    }
    static std::string after(const Json& previous, const std::string& more) {
        return R"({"input":"and?","previous_response_id":)" + previous["id"].dump() + more + "}";
    }

    TempFolder folder_;
};

TEST_F(StoredResponsesTest, AResponseGoesOnFromAnEarlierOneAlsoAfterARestart) {
    const Json first = answer(R"({"input":"Hi","instructions":"Be brief."})", "Yes");
    EXPECT_EQ(first["store"], true);
    std::string prompt;
    const Json second = answer(after(first, ",\"stream\":true"), "No", &prompt);
    EXPECT_EQ(prompt, "user:Hi\nassistant:Yes\nuser:and?\nassistant:")
        << "instructions are not inherited";
    EXPECT_EQ(second["previous_response_id"], first["id"]);
    server_.reset();
    start();
    answer(after(second, ""), "x", &prompt);
    EXPECT_EQ(prompt, "user:Hi\nassistant:Yes\nuser:and?\nassistant:No\nuser:and?\nassistant:");
    const std::string path = "/v1/responses/" + second["id"].get<std::string>();
    EXPECT_EQ(Json::parse(get(path).body), second);
    EXPECT_EQ(Json::parse(remove(path).body),
              (Json{{"id", second["id"]}, {"object", "response"}, {"deleted", true}}));
    EXPECT_EQ(get(path).status, 404);
    EXPECT_EQ(remove(path).status, 404);
    const auto refused = post("/v1/responses", after(second, ""));
    EXPECT_EQ(refused.status, 404);
    EXPECT_EQ(Json::parse(refused.body)["error"]["param"], "previous_response_id");
}

TEST_F(StoredResponsesTest, WhatIsNotToBeStoredIsNot) {
    const Json made = answer(R"({"input":"Hi","store":false})", "Yes");
    EXPECT_EQ(made["store"], false);
    EXPECT_EQ(get("/v1/responses/" + made["id"].get<std::string>()).status, 404);
    EXPECT_EQ(post("/v1/responses", R"({"input":"Hi","store":"yes"})").status, 400);
}

TEST_F(ResponsesTest, WithoutAFolderNothingIsKept) {
    EXPECT_EQ(get("/v1/responses/resp_1").status, 404);
}

// The events of a stream, without what is the same in each.
std::vector<std::string> brief(const std::string& stream) {
    std::vector<std::string> all;
    net::SseParser parser([&](std::string_view data) {
        auto event = nlohmann::ordered_json::parse(data);
        EXPECT_EQ(event["sequence_number"], all.size());
        const auto type = event["type"].get<std::string>();
        event.erase("type");
        event.erase("sequence_number");
        if (event.contains("response")) event = event["response"]["output"];
        all.push_back(type.substr(9) + " " + event.dump());
    });
    parser.push(stream);
    return all;
}

TEST(ResponsesRequest, WhatTheModelMadeInOneGoIsOneMessage) {
    using Ordered = nlohmann::ordered_json;
    auto body = Ordered::parse(R"({"reasoning":{"effort":"none"},"input":[
        {"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]},
        {"type":"function_call","call_id":"a","name":"f","arguments":"{}"},
        {"type":"function_call","call_id":"b","name":"g","arguments":"{}"},
        {"type":"function_call_output","call_id":"a","output":"x"},
        {"role":"assistant","content":"I"},{"role":"assistant","content":"II"}],
        "tool_choice":{"type":"allowed_tools","mode":"required",
          "tools":[{"type":"function","name":"f"}]},
        "text":{"format":{"type":"json_schema","name":"n","strict":true,"schema":{}}}})");
    ResponsesAsk ask;
    const auto error = read_responses_body(body, ask);
    ASSERT_FALSE(error) << error->message;
    EXPECT_EQ(ask.chat, Ordered::parse(R"({"messages":[
        {"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[
          {"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},
          {"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]},
        {"role":"tool","content":"x","tool_call_id":"a"},
        {"role":"assistant","content":"I"},{"role":"assistant","content":"II"}],
        "tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required",
          "tools":[{"type":"function","function":{"name":"f"}}]}},
        "response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{}}},
        "chat_template_kwargs":{"enable_thinking":false,"thinking":false},
        "reasoning_effort":"none"})"));
}

TEST(ResponsesStream, ItemsOfAllKindsComeOneAfterAnother) {
    ResponsesStream writer({.id = "resp_7", .created = 1, .model = "m", .request_id = {}},
                           "\"store\":false");
    std::string out;
    writer.begin(out, {});
    writer.add_parts(out, 0, {ReasoningText{"h"}}, {});
    writer.add_parts(out, 0, {ReasoningText{"m"}, ContentText{"I"}}, {});
    writer.add_parts(out, 0, {ToolCallDelta{0, "c", "f", ""}}, {});
    writer.add_parts(
        out, 0, {ToolCallDelta{0, "", "", "{}", true}, ToolCallDelta{1, "d", "g", "{}", true}}, {});
    writer.finish(out, 0, {}, {});
    writer.end(out, {});
    const std::string thought =
        R"({"type":"reasoning","id":"rs_7_0","status":"completed","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]})";
    const std::string said =
        R"({"type":"message","id":"msg_7_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"I","annotations":[],"logprobs":[]}]})";
    const std::string first =
        R"({"type":"function_call","id":"fc_7_2","status":"completed","call_id":"c","name":"f","arguments":"{}"})";
    const std::string second =
        R"({"type":"function_call","id":"fc_7_3","status":"completed","call_id":"d","name":"g","arguments":"{}"})";
    const std::string rs = R"("item_id":"rs_7_0","output_index":0,"content_index":0)";
    const std::string msg = R"("item_id":"msg_7_1","output_index":1,"content_index":0)";
    EXPECT_EQ(
        brief(out),
        (std::vector<std::string>{
            "created []",
            "in_progress []",
            R"(output_item.added {"output_index":0,"item":{"type":"reasoning","id":"rs_7_0","status":"in_progress","summary":[],"content":[]}})",
            "content_part.added {" + rs + R"(,"part":{"type":"reasoning_text","text":""}})",
            "reasoning_text.delta {" + rs + R"(,"delta":"h"})",
            "reasoning_text.delta {" + rs + R"(,"delta":"m"})",
            "reasoning_text.done {" + rs + R"(,"text":"hm"})",
            "content_part.done {" + rs + R"(,"part":{"type":"reasoning_text","text":"hm"}})",
            R"(output_item.done {"output_index":0,"item":)" + thought + "}",
            R"(output_item.added {"output_index":1,"item":{"type":"message","id":"msg_7_1","status":"in_progress","role":"assistant","content":[]}})",
            "content_part.added {" + msg +
                R"(,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}})",
            "output_text.delta {" + msg + R"(,"delta":"I","logprobs":[]})",
            "output_text.done {" + msg + R"(,"text":"I","logprobs":[]})",
            "content_part.done {" + msg +
                R"(,"part":{"type":"output_text","text":"I","annotations":[],"logprobs":[]}})",
            R"(output_item.done {"output_index":1,"item":)" + said + "}",
            R"(output_item.added {"output_index":2,"item":{"type":"function_call","id":"fc_7_2","status":"in_progress","call_id":"c","name":"f","arguments":""}})",
            R"(function_call_arguments.delta {"item_id":"fc_7_2","output_index":2,"delta":"{}"})",
            R"(function_call_arguments.done {"item_id":"fc_7_2","output_index":2,"name":"f","arguments":"{}"})",
            R"(output_item.done {"output_index":2,"item":)" + first + "}",
            R"(output_item.added {"output_index":3,"item":{"type":"function_call","id":"fc_7_3","status":"in_progress","call_id":"d","name":"g","arguments":""}})",
            R"(function_call_arguments.delta {"item_id":"fc_7_3","output_index":3,"delta":"{}"})",
            R"(function_call_arguments.done {"item_id":"fc_7_3","output_index":3,"name":"g","arguments":"{}"})",
            R"(output_item.done {"output_index":3,"item":)" + second + "}",
            "completed [" + thought + "," + said + "," + first + "," + second + "]"}));
}

TEST(ResponsesWhole, TheLastItemIsIncompleteWhereTheAnswerIs) {
    WholeAnswer answer;
    answer.choices.emplace_back();
    answer.choices[0].parts = {ReasoningText{"hm"}, ToolCallDelta{0, "c", "f", "{\"a"}};
    answer.choices[0].end.reason = FinishReason::length;
    const ResponsesWhole writer({.id = "resp_7", .created = 1, .model = "m", .request_id = {}},
                                "\"store\":false");
    const auto made = nlohmann::json::parse(writer.write(answer));
    EXPECT_EQ(made["status"], "incomplete");
    EXPECT_EQ(made["output"][0]["status"], "completed");
    EXPECT_EQ(made["output"][1]["status"], "incomplete");
    EXPECT_EQ(made["output"][1]["arguments"], "{\"a");
}

}  // namespace
}  // namespace helix::api::responses_test
