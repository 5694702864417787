// The OpenAPI document says of the API what the API does.

#include "api/openapi.h"

#include <set>

#include "api/body_fields.h"
#include "api/routes.h"
#include "api_fixture.h"

namespace helix::api::openapi_test {
namespace {

using Json = nlohmann::json;

Json document() {
    return Json::parse(openapi_document("1.2.3"));
}

TEST_F(ApiTest, TheOpenApiDocumentIsServed) {
    const auto response = get("/openapi.json");
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.header("content-type"), "application/json");
    const Json served = Json::parse(response.body);
    EXPECT_EQ(served["paths"], document()["paths"]);
}

TEST(OpenApi, EveryRouteIsInItOnce) {
    const Json described = document();
    EXPECT_EQ(described["openapi"], "3.1.0");
    EXPECT_EQ(described["info"]["version"], "1.2.3");
    std::size_t operations = 0;
    std::set<std::string> ids;
    for (const auto& [path, methods] : described["paths"].items()) {
        for (const auto& [method, operation] : methods.items()) {
            ++operations;
            EXPECT_TRUE(ids.insert(operation["operationId"]).second) << path;
            EXPECT_FALSE(operation["summary"].get<std::string>().empty()) << path;
            EXPECT_EQ(operation.contains("parameters"), path.find('{') != path.npos) << path;
            EXPECT_TRUE(operation["security"].is_array()) << path;
            EXPECT_TRUE(operation["responses"].contains("200")) << path;
        }
    }
    EXPECT_EQ(operations, all_routes().size());
    const Json& chat = described["paths"]["/v1/chat/completions"]["post"];
    EXPECT_EQ(chat["security"], Json::parse(R"([{"apiKey":[]}])"));
    EXPECT_EQ(described["paths"]["/health"]["get"]["security"], Json::array());
    EXPECT_EQ(described["paths"]["/helix/session"]["post"]["security"], Json::array());
    for (const char* seen_by_all_keys : {"/v1/models", "/helix/cluster", "/metrics"}) {
        EXPECT_EQ(described["paths"][seen_by_all_keys]["get"]["security"],
                  Json::parse(R"([{"anyKey":[]}])"));
    }
    EXPECT_EQ(described["paths"]["/helix/nodes/{call}"]["post"]["security"],
              Json::parse(R"([{"adminKey":[]}])"));
    EXPECT_TRUE(chat["responses"]["200"]["content"].contains("text/event-stream"));
}

TEST(OpenApi, FieldsHaveTheirTypesAndBounds) {
    const Json schema = document()["paths"]["/v1/chat/completions"]["post"]["requestBody"]
                                  ["content"]["application/json"]["schema"];
    EXPECT_EQ(schema["required"], Json::array({"messages"}));
    const Json& fields = schema["properties"];
    EXPECT_EQ(fields["temperature"]["minimum"], 0.0);
    EXPECT_EQ(fields["temperature"]["maximum"], 100.0);
    EXPECT_EQ(fields["max_tokens"]["minimum"], -1);
    EXPECT_FALSE(fields["max_tokens"].contains("maximum"));
    EXPECT_EQ(fields["stream_options"]["properties"]["include_usage"]["type"], "boolean");
    EXPECT_TRUE(fields.contains("speculative.n_max"));
    EXPECT_FALSE(fields.contains("echo")) << "that is for completions";
}

struct Body {
    std::uint16_t bit;
    const char* path;
    const char* good;
};

constexpr Body kBodies[] = {
    {body::kChat, "/v1/chat/completions", R"({"messages":[{"role":"user","content":"Hi"}]})"},
    {body::kCompletions, "/v1/completions", R"({"prompt":"Hi"})"},
    {body::kMessages, "/v1/messages",
     R"({"max_tokens":5,"messages":[{"role":"user","content":"Hi"}]})"},
    {body::kResponses, "/v1/responses", R"({"input":"Hi"})"},
    {body::kEmbeddings, "/v1/embeddings", R"({"input":"Hi"})"},
    {body::kOllamaChat, "/api/chat", R"({"messages":[{"role":"user","content":"Hi"}]})"},
    {body::kOllamaGenerate, "/api/generate", R"({"prompt":"Hi"})"},
    {body::kOllamaEmbed, "/api/embed", R"({"input":"Hi"})"},
    {body::kOllamaSingle, "/api/embeddings", R"({"prompt":"Hi"})"},
    {body::kRerank, "/v1/rerank", R"({"query":"Hi","documents":["a"]})"},
    {body::kScore, "/v1/score", R"({"text_1":"Hi","text_2":"a"})"},
    {body::kTokenize, "/tokenize", R"({"prompt":"Hi"})"},
    {body::kDetokenize, "/detokenize", R"({"tokens":[1]})"},
};

// A value that a field of this shape does not take.
Json wrong_value(const BodyField& field) {
    switch (field.shape) {
        case FieldShape::number:
        case FieldShape::integer:
        case FieldShape::object:
        case FieldShape::array:
            return "wrong";
        case FieldShape::boolean:
        case FieldShape::text:
            return 7;
        case FieldShape::texts:
        case FieldShape::prompt:
            return Json::object();
        case FieldShape::any:
            break;
    }
    return {};
}

std::vector<Json> values_outside(const BodyField& field) {
    if (field.low == field.high) return {};
    std::vector<Json> values = {field.low - 1};
    if (field.high < field::kMost32) values.push_back(field.high + 1);
    return values;
}

TEST_F(ApiTest, EachFieldIsRefusedByItsNameWhereItIsNotWhatTheTableSays) {
    int refused = 0;
    for (const Body& one : kBodies) {
        for (const BodyField& field : all_body_fields()) {
            if ((field.in & one.bit) == 0) continue;
            std::vector<Json> values = values_outside(field);
            if (const Json wrong = wrong_value(field); !wrong.is_null()) values.push_back(wrong);
            for (const Json& value : values) {
                Json sent = Json::parse(one.good);
                const std::string name(field.name);
                const std::size_t dot = name.find('.');
                if (dot != name.npos && name != field::kMaxDrafts.name) {
                    sent[name.substr(0, dot)][name.substr(dot + 1)] = value;
                    if (name.starts_with("tool_choice.")) sent["tool_choice"]["type"] = "auto";
                } else {
                    sent[name] = value;
                }
                const auto response = post(one.path, sent.dump());
                EXPECT_EQ(response.status, 400) << one.path << " " << sent.dump();
                EXPECT_NE(response.body.find(name), std::string::npos)
                    << one.path << " " << sent.dump() << ": " << response.body;
                ++refused;
            }
        }
    }
    EXPECT_GT(refused, 180);
}

}  // namespace
}  // namespace helix::api::openapi_test
