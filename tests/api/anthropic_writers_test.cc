// The bytes of Anthropic's protocol, for every kind of part.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/writers/anthropic_stream.h"
#include "api/writers/anthropic_whole.h"
#include "api/writers/call_arguments.h"

namespace helix::api::anthropic_writers_test {
namespace {

using core::FinishReason;
using text::ContentText;
using text::OutputPart;
using text::ReasoningText;
using text::ToolCallDelta;
using Json = nlohmann::json;

AnswerHead some_head() {
    return {.id = "msg_1", .created = 1234, .model = "m", .request_id = "req_9"};
}

std::string whole(std::vector<OutputPart> parts, ChoiceEnd end = {}) {
    WholeAnswer answer;
    answer.usage = {
        .prompt_tokens = 7, .cached_tokens = 3, .completion_tokens = 5, .reasoning_tokens = 2};
    answer.choices.emplace_back();
    answer.choices.back().parts = std::move(parts);
    answer.choices.back().end = std::move(end);
    return AnthropicWhole(some_head()).write(answer);
}

TEST(AnthropicStream, BlocksComeOneAfterAnotherEachWithItsEvents) {
    AnthropicStream writer(some_head());
    std::string out;
    writer.begin(out, {7, 0, 0});
    EXPECT_EQ(out, "");
    EXPECT_EQ(writer.ping(), ": ping\n\n");
    writer.add_parts(out, 0, {}, {{7, 3, 1}, 1});
    EXPECT_EQ(writer.ping(), "event: ping\ndata: {\"type\":\"ping\"}\n\n");
    writer.add_parts(out, 0, {ReasoningText{"h\n"}}, {{7, 3, 2}, 2});
    writer.add_parts(out, 0, {ReasoningText{"m"}, ContentText{"I"}}, {{7, 3, 3}, 3});
    writer.add_parts(out, 0, {ToolCallDelta{0, "call_1", "look", ""}}, {{7, 3, 4}, 4});
    writer.add_parts(out, 0, {ToolCallDelta{0, "", "", "{\"a\":"}}, {{7, 3, 5}, 5});
    writer.add_parts(
        out, 0,
        {ToolCallDelta{0, "", "", "1}", true}, ToolCallDelta{1, "call_2", "go", "{}", true}},
        {{7, 3, 6}, 6});
    writer.finish(out, 0, {FinishReason::stop}, {{7, 3, 7, 3}, 7});
    writer.end(out, {7, 3, 7, 3});
    EXPECT_EQ(out, R"(event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":4,"cache_creation_input_tokens":0,"cache_read_input_tokens":3,"output_tokens":1,"output_tokens_details":{"thinking_tokens":0}}}}

event: ping
data: {"type":"ping"}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"h\n"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"m"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"msg_1"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"call_1","name":"look","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"1}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: content_block_start
data: {"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"call_2","name":"go","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":3}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":4,"cache_creation_input_tokens":0,"cache_read_input_tokens":3,"output_tokens":7,"output_tokens_details":{"thinking_tokens":3}}}

event: message_stop
data: {"type":"message_stop"}

)");
}

TEST(AnthropicStream, AnEmptyAnswerHasNoBlocksAndAnErrorEndsAStream) {
    AnthropicStream writer(some_head());
    std::string out;
    writer.finish(out, 0, {FinishReason::length}, {{1, 0, 1}, 1});
    EXPECT_EQ(out.find("content_block"), std::string::npos);
    EXPECT_NE(out.find("event: message_start"), std::string::npos);
    EXPECT_NE(out.find(R"("stop_reason":"max_tokens")"), std::string::npos);
    out.clear();
    writer.error(out, unavailable("gone", 1));
    EXPECT_EQ(out,
              "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
              "\"message\":\"gone\"},\"request_id\":\"req_9\"}\n\n");
}

TEST(AnthropicWhole, AMessageHasABlockForEachPart) {
    EXPECT_EQ(
        whole({ReasoningText{"hm"}, ContentText{"I look."},
               ToolCallDelta{0, "c", "f", "{\"a\":1}", true}, ContentText{""},
               ToolCallDelta{1, "d", "g", "", true}}),
        R"({"id":"msg_1","type":"message","role":"assistant","model":"m","content":[)"
        R"({"type":"thinking","thinking":"hm","signature":"msg_1"},)"
        R"({"type":"text","text":"I look."},)"
        R"({"type":"tool_use","id":"c","name":"f","input":{"a":1}},)"
        R"({"type":"tool_use","id":"d","name":"g","input":{}}],)"
        R"("stop_reason":"tool_use","stop_sequence":null,)"
        R"("usage":{"input_tokens":4,"cache_creation_input_tokens":0,"cache_read_input_tokens":3,)"
        R"("output_tokens":5,"output_tokens_details":{"thinking_tokens":2}}})");
}

TEST(AnthropicWhole, TheReasonOfTheEndIsTold) {
    const auto end_of = [](std::vector<OutputPart> parts, ChoiceEnd end) {
        const Json message = Json::parse(whole(std::move(parts), std::move(end)));
        return std::pair(message["stop_reason"], message["stop_sequence"]);
    };
    const ToolCallDelta call{0, "c", "f", "{\"a\":1,\"b\":\"x"};
    EXPECT_EQ(end_of({}, {FinishReason::stop}), std::pair(Json("end_turn"), Json()));
    EXPECT_EQ(end_of({}, {FinishReason::stop, "END"}),
              std::pair(Json("stop_sequence"), Json("END")));
    EXPECT_EQ(end_of({call}, {FinishReason::length}), std::pair(Json("max_tokens"), Json()));
    EXPECT_EQ(Json::parse(whole({call}))["content"][0]["input"], Json({{"a", 1}}));
}

TEST(CallArguments, WhatBreaksOffIsCutAfterItsLastWholeMember) {
    for (const auto& [given, made] : std::vector<std::pair<std::string, std::string>>{
             {R"({"a":1})", R"({"a":1})"},
             {" {} ", " {} "},
             {"", "{}"},
             {"{", "{}"},
             {R"({"a":12)", "{}"},
             {R"({"a":12,)", R"({"a":12})"},
             {R"({"a":12,"b":[1,"x,]\"}")", R"({"a":12,"b":[1]})"},
             {R"({"a":{"b":{},"c)", R"({"a":{"b":{}}})"},
             {R"({"a":[)", R"({"a":[]})"},
             {"[1]", "{}"},
             {"nonsense", "{}"},
             {R"({"a":1}})", R"({"a":1})"}}) {
        EXPECT_EQ(arguments_object(given), made) << given;
    }
}

}  // namespace
}  // namespace helix::api::anthropic_writers_test
