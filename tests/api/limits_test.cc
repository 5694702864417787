// Whatever a request may ask for has a limit, and the answer to what is over it names it.

#include "api/limits.h"

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "api/completion_request.h"
#include "api/error.h"
#include "api_fixture.h"

namespace helix::api::limits_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

RequestLimits test_limits() {
    RequestLimits limits;
    limits.vocab_size = 10'000;
    limits.context_length = 1000;
    return limits;
}

std::optional<ApiError> parse(Endpoint endpoint, const Json& body) {
    CompletionRequest request;
    nlohmann::ordered_json object;
    if (auto error = parse_json_object(body.dump(), object)) return error;
    return read_completion_request(endpoint, object, test_limits(), request);
}

Json many(std::size_t n, const Json& item) {
    return std::vector<Json>(n, item);
}

Json biases(int n) {
    Json out = Json::object();
    for (int i = 0; i < n; ++i) out[std::to_string(i)] = 1;
    return out;
}

Json members(int n, const std::string& value) {
    Json out = Json::object();
    for (int i = 0; i < n; ++i) out["m" + std::to_string(i)] = value;
    return out;
}

struct Case {
    Endpoint endpoint;
    const char* field;
    Json most;  // is taken
    Json over;  // is not
    const char* limit;
};

Json tool(const std::string& name, const std::string& description = {}) {
    return {{"type", "function"}, {"function", {{"name", name}, {"description", description}}}};
}

Json call_message(std::size_t calls) {
    const Json call = {{"id", "1"}, {"function", {{"name", "f"}, {"arguments", "{}"}}}};
    return Json::array(
        {{{"role", "assistant"}, {"content", "x"}, {"tool_calls", many(calls, call)}}});
}

Json parts_message(std::size_t parts) {
    const Json part = {{"type", "text"}, {"text", "x"}};
    return Json::array({{{"role", "user"}, {"content", many(parts, part)}}});
}

Json named_schema(std::size_t bytes) {
    return {{"type", "json_schema"},
            {"json_schema", {{"name", std::string(bytes, 'n')}, {"schema", {{"type", "null"}}}}}};
}

std::vector<Case> cases() {
    const auto text = [](std::size_t bytes) { return std::string(bytes, 'x'); };
    const Json message = {{"role", "user"}, {"content", "x"}};
    constexpr Endpoint kChat = Endpoint::chat;
    constexpr Endpoint kPlain = Endpoint::completions;
    return {
        {kPlain, "model", text(256), text(257), "max_name_bytes"},
        {kPlain, "user", text(1024), text(1025), "max_user_bytes"},
        {kPlain, "metadata", members(16, "x"), members(17, "x"), "max_metadata"},
        {kPlain, "metadata", members(1, text(512)), members(1, text(513)), "max_metadata_bytes"},
        {kPlain, "metadata", {{text(64), "x"}}, {{text(65), "x"}}, "max_metadata_name_bytes"},
        {kPlain, "stop", many(64, "x"), many(65, "x"), "max_stop_strings"},
        {kPlain, "stop", text(4096), text(4097), "max_stop_bytes"},
        {kPlain, "stop", many(64, text(1024)), many(64, text(1025)), "max_all_stop_bytes"},
        {kPlain, "stop", "x", text(3'900'000), "max_stop_bytes"},
        {kPlain, "stop_token_ids", many(1024, 7), many(1025, 7), "max_stop_tokens"},
        {kPlain, "logit_bias", biases(4096), biases(4097), "max_biases"},
        {kPlain, "prompt", many(128, "x"), many(129, "x"), "max_prompts"},
        {kPlain,
         "prediction",
         {{"type", "content"}, {"content", text(256 << 10)}},
         {{"type", "content"}, {"content", text((256 << 10) + 1)}},
         "max_prediction_bytes"},
        {kChat, "messages", many(8192, message), many(8193, message), "max_messages"},
        {kChat, "messages", parts_message(1024), parts_message(1025), "max_parts"},
        {kChat, "messages", call_message(256), call_message(257), "max_tool_calls"},
        {kChat, "tools", many(256, tool("f")), many(257, tool("f")), "max_tools"},
        {kChat, "tools", many(1, tool("f")), many(1, tool("f", text(1 << 20))), "max_tools_bytes"},
        {kChat, "tools", many(1, tool(text(256))), many(1, tool(text(257))), "max_name_bytes"},
        {kChat,
         "chat_template_kwargs",
         {{"a", text(60'000)}},
         {{"a", text(70'000)}},
         "max_kwargs_bytes"},
        {kChat, "response_format", named_schema(256), named_schema(257), "max_name_bytes"},
    };
}

TEST(RequestLimits, EveryListStringAndCountHasOneAndTheErrorNamesIt) {
    for (const Case& one : cases()) {
        Json body = {{"prompt", "x"}};
        if (one.endpoint == Endpoint::chat) {
            body = {{"messages", {{{"role", "user"}, {"content", "x"}}}}};
        }
        body[one.field] = one.most;
        const auto taken = parse(one.endpoint, body);
        EXPECT_FALSE(taken) << one.field << ": " << (taken ? taken->message : "");
        body[one.field] = one.over;
        const auto error = parse(one.endpoint, body);
        ASSERT_TRUE(error) << one.field << ", " << one.limit;
        EXPECT_EQ(error->status, 400);
        EXPECT_TRUE(error->param.starts_with(one.field)) << error->param;
        EXPECT_THAT(error->message, HasSubstr(one.limit));
        EXPECT_LT(error->message.size(), 400U);
    }
}

TEST(RequestLimits, ChoicesOfAllPromptsAreCountedTogether) {
    Json body = {{"prompt", many(8, "x")}, {"n", 128}};
    EXPECT_FALSE(parse(Endpoint::completions, body));
    body["prompt"] = many(9, "x");
    const auto error = parse(Endpoint::completions, body);
    ASSERT_TRUE(error);
    EXPECT_THAT(error->message, HasSubstr("max_choices"));
}

TEST_F(ApiTest, EchoTimesChoicesIsBounded) {
    model_.context_length = 1'000'000;
    options_.request_limits.max_echoed_bytes = 10'000;
    const Json body = {{"prompt", std::string(101, 'x')}, {"echo", true}, {"n", 100}};
    const auto response = post("/v1/completions", body.dump());
    EXPECT_EQ(response.status, 400);
    EXPECT_THAT(response.body, HasSubstr("max_echoed_bytes"));
}

TEST_F(ApiTest, ManyLogProbabilitiesOfAPromptAreNotStreamedInOnePiece) {
    model_.context_length = 100'000;
    options_.request_limits.max_streamed_prompt_logprobs = 600;
    Json body = {
        {"prompt", std::string(101, 'x')}, {"echo", true}, {"logprobs", 5}, {"stream", true}};
    const auto response = post("/v1/completions", body.dump());
    EXPECT_EQ(response.status, 400);
    EXPECT_THAT(response.body, HasSubstr("max_streamed_prompt_logprobs"));
    body["prompt"] = std::string(100, 'x');
    auto c = client();
    c.request("POST", "/v1/completions", body.dump());
    EXPECT_TRUE(service_.next());
}

TEST_F(ApiTest, ChoicesShareTheEchoedPromptAndEachStillShowsIt) {
    for (const bool stream : {false, true}) {
        auto c = client();
        const Json body = {{"prompt", "abc"}, {"echo", true}, {"n", 2}, {"stream", stream}};
        c.request("POST", "/v1/completions", body.dump());
        auto request = service_.next();
        ASSERT_TRUE(request);
        request->say("x", 0);
        request->say("y", 1);
        request->finish(core::FinishReason::length);
        const auto response = c.read_response();
        EXPECT_THAT(response.body, HasSubstr("\"abcx\""));
        EXPECT_THAT(response.body, HasSubstr("\"abcy\""));
    }
}

TEST(RequestLimits, TheDocumentationHasEveryLimitAsItIs) {
    std::ifstream file(HELIX_SOURCE_DIR "/docs/api.md");
    std::stringstream text;
    text << file.rdbuf();
    for (const LimitRow& row : limit_table()) {
        const std::string line =
            "| `" + row.name + "` | " + std::to_string(row.value) + " | " + row.of + " |";
        EXPECT_THAT(text.str(), HasSubstr(line));
    }
}

// ---- what errors say

TEST(ApiErrors, WhatTheServerDidWrongIsInItsLogAndNotInTheAnswer) {
    const base::Error failed{base::Errc::io, "/home/me/state/jobs.db: disk I/O error"};
    for (const ApiError& error :
         {from_error(failed), from_error({base::Errc::internal, failed.message}),
          from_status(500, failed.message)}) {
        EXPECT_EQ(error.status, 500);
        EXPECT_THAT(error_json(error), Not(HasSubstr("/home")));
        EXPECT_THAT(error_json(error), Not(HasSubstr("disk")));
    }
}

TEST(ApiErrors, ALongTextThatIsQuotedIsCut) {
    const std::string json = error_json(bad_field("model", std::string(1'000'000, '\x01')));
    EXPECT_LT(json.size(), 20'000U);
    EXPECT_TRUE(Json::accept(json));
}

}  // namespace
}  // namespace helix::api::limits_test
