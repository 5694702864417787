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
                      R"("schema":{"properties":{"a":{"items":{"uniqueItems":true}}}}}})"),
              "'response_format.json_schema.schema': #/properties/a/items: keyword \"uniqueItems\" "
              "is not supported");
    EXPECT_EQ(message(R"("response_format":{"type":"json_object","schema":{"required":["a"],)"
                      R"("type":"object","additionalProperties":false}})"),
              "'response_format.schema': #/required: \"a\" is not among the properties, and "
              "additionalProperties is false");
    EXPECT_EQ(message(R"("response_format":{"type":"json_object","schema":"{}"})"),
              "'response_format.schema': expected a JSON schema, got a string");
    EXPECT_EQ(message(R"("grammar":"root ::= \"a\n")"),
              "'grammar': line 2, column 1: expected '\"' at the end of a literal, found the end");
    EXPECT_EQ(message(R"("grammar":"root ::= root")"),
              "'grammar': rule \"root\" matches no text: it can never be completed");
}

}  // namespace
}  // namespace helix::api::output_format_test
