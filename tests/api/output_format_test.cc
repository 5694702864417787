#include "api_fixture.h"

namespace helix::api::output_format_test {
namespace {

using Kind = spec::OutputGrammar::Kind;

TEST_F(ApiTest, AnOutputFormatReachesTheServiceAsAGrammar) {
    struct Case {
        const char* path;
        std::string field;
        spec::OutputGrammar grammar;
    };
    const std::vector<Case> cases = {
        {"/v1/chat/completions", R"("response_format":{"type":"text"})", {}},
        {"/v1/chat/completions", R"("response_format":null,"grammar":null)", {}},
        {"/v1/chat/completions",
         R"("response_format":{"type":"json_object"})",
         {Kind::json_object, ""}},
        {"/v1/completions", R"("response_format":{"type":"json_object"})", {Kind::json_object, ""}},
        {"/v1/chat/completions",
         R"("response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,)"
         R"("schema":{"type":"object","properties":{"b":{"type":"null"},"a":{}}}}})",
         {Kind::json_schema, R"({"type":"object","properties":{"b":{"type":"null"},"a":{}}})"}},
        {"/v1/completions",
         R"("response_format":{"type":"json_object","schema":{"enum":[1]}})",
         {Kind::json_schema, R"({"enum":[1]})"}},
        {"/v1/completions", R"("grammar":"root ::= \"a\"")", {Kind::gbnf, "root ::= \"a\""}},
        {"/v1/chat/completions",
         R"("structured_outputs":{"json":{"type":"null"}})",
         {Kind::json_schema, R"({"type":"null"})"}},
        {"/v1/chat/completions",
         R"("structured_outputs":{"json":"{\"type\":\"null\"}","regex":null})",
         {Kind::json_schema, R"({"type":"null"})"}},
        {"/v1/completions",
         R"("structured_outputs":{"json_object":true})",
         {Kind::json_object, ""}},
        {"/v1/completions",
         R"("structured_outputs":{"choice":["yes","n o"]})",
         {Kind::gbnf, R"(root ::= "yes" | "n\U00000020o")"}},
        {"/v1/completions",
         R"("structured_outputs":{"grammar":"root ::= \"a\""})",
         {Kind::gbnf, "root ::= \"a\""}},
        {"/v1/completions",
         R"("guided_regex":"^[a-c]{2,}x?")",
         {Kind::gbnf, "root ::= ((([a-c]){2,} ([x]){0,1}))"}},
        {"/v1/completions", R"("guided_choice":["a"])", {Kind::gbnf, "root ::= \"a\""}},
        {"/v1/completions",
         R"("guided_json":{"enum":[1]})",
         {Kind::json_schema, R"({"enum":[1]})"}},
        {"/v1/completions", R"("guided_grammar":"root ::= \"a\"")", {Kind::gbnf, "root ::= \"a\""}},
    };
    for (const Case& one : cases) {
        const bool chat = std::string(one.path).find("chat") != std::string::npos;
        const std::string prompt =
            chat ? R"({"messages":[{"role":"user","content":"Hi"}],)" : R"({"prompt":"Hi",)";
        auto c = client();
        c.request("POST", one.path, prompt + one.field + "}");
        auto request = service_.next();
        ASSERT_TRUE(request) << one.field;
        EXPECT_EQ(request->request.sampling.grammar, one.grammar) << one.field;
        request->say("{}");
        request->token(kByteEnd);
        request->finish(core::FinishReason::stop);
        const auto response = c.read_response();
        EXPECT_EQ(response.status, 200) << response.body;
    }
}

TEST_F(ApiTest, WhatASchemaOrGrammarGetsWrongIsSaidBeforeAcceptance) {
    const auto message = [&](const std::string& field) {
        const auto response =
            post("/v1/chat/completions",
                 R"({"messages":[{"role":"user","content":"Hi"}],)" + field + "}");
        EXPECT_EQ(response.status, 400) << response.body;
        return Json::parse(response.body)["error"]["message"].get<std::string>();
    };
    EXPECT_EQ(message(R"("response_format":{"type":"json_schema","json_schema":{"name":"x",)"
                      R"("schema":{"properties":{"a":{"items":{"unevaluatedItems":true}}}}}})"),
              "'response_format.json_schema.schema': #/properties/a/items: keyword "
              "\"unevaluatedItems\" is not supported");
    EXPECT_EQ(message(R"("response_format":{"type":"json_object","schema":{"required":["a"],)"
                      R"("type":"object","additionalProperties":false}})"),
              "'response_format.schema': #: \"a\" is required, and cannot be there");
    EXPECT_EQ(message(R"("response_format":{"type":"json_object","schema":"{}"})"),
              "'response_format.schema': expected a JSON schema, got a string");
    EXPECT_EQ(message(R"("grammar":"root ::= \"a\n")"),
              "'grammar': line 2, column 1: expected '\"' at the end of a literal, found the end");
    EXPECT_EQ(message(R"("grammar":"root ::= root")"),
              "'grammar': rule \"root\" matches no text: it can never be completed");
    EXPECT_EQ(message(R"("structured_outputs":{})"),
              "'structured_outputs': expected exactly one of json, regex, choice, grammar, "
              "json_object");
    EXPECT_EQ(message(R"("structured_outputs":{"regex":"a","choice":["a"]})"),
              "'structured_outputs': expected exactly one of json, regex, choice, grammar, "
              "json_object");
    EXPECT_EQ(message(R"("structured_outputs":{"structural_tag":"{}"})"),
              "'structured_outputs.structural_tag': is not supported");
    EXPECT_EQ(message(R"("structured_outputs":{"choice":[]})"),
              "'structured_outputs.choice': expected an array of strings that is not empty");
    EXPECT_EQ(message(R"("guided_regex":"(a")"),
              "'guided_regex': line 1, column 3: expected ')' or more of the group, found the end");
    EXPECT_EQ(message(R"("guided_regex":"a","guided_choice":["a"])"),
              "'guided_choice': a request has one output format; leave out the others");
    EXPECT_EQ(message(R"("response_format":{"type":"json_object"},"structured_outputs":)"
                      R"({"json_object":true})"),
              "'structured_outputs': a request has one output format; leave out the others");
}

}  // namespace
}  // namespace helix::api::output_format_test
