#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/output/answer_parser.h"

// Reads whole answers with a parser and says what was in them.

namespace helix::text::test_support {

struct ReadCall {
    std::string id;
    std::string name;
    std::string arguments;
    bool complete = false;
    bool operator==(const ReadCall&) const = default;
};

struct ReadAnswer {
    std::string content;
    std::string reasoning;
    std::vector<ReadCall> calls;
    bool operator==(const ReadAnswer&) const = default;

    void add(const std::vector<OutputPart>& parts) {
        for (const OutputPart& part : parts) {
            if (const auto* text = std::get_if<ContentText>(&part)) content += text->text;
            if (const auto* text = std::get_if<ReasoningText>(&part)) reasoning += text->text;
            const auto* call = std::get_if<ToolCallDelta>(&part);
            if (call == nullptr) continue;
            const auto index = static_cast<std::size_t>(call->index);
            if (index >= calls.size()) calls.resize(index + 1);
            calls[index].id += call->id;
            calls[index].name += call->name;
            calls[index].arguments += call->arguments;
            calls[index].complete = calls[index].complete || call->complete;
        }
    }
    std::string describe() const {
        std::string out = "content: " + content + "\nreasoning: " + reasoning;
        for (const ReadCall& call : calls) {
            out += "\ncall: " + call.name + " " + call.arguments + (call.complete ? "" : " ...");
        }
        return out;
    }
};

inline std::shared_ptr<const ToolSchemas> demo_tools() {
    return std::make_shared<const ToolSchemas>(nlohmann::ordered_json::parse(R"([
        {"type": "function", "function": {"name": "get_weather", "description": "The weather",
            "parameters": {"type": "object", "properties": {
                "city": {"type": "string", "description": "a city"},
                "days": {"type": "integer", "description": "how many"},
                "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "any"},
                "deep": {"type": "object", "description": "more"}},
            "required": ["city"]}}},
        {"type": "function", "function": {"name": "add", "description": "Adds",
            "parameters": {"type": "object", "properties": {
                "numbers": {"type": "array", "items": {"type": "number"}, "description": "n"}}}}},
        {"type": "function", "function": {"name": "now", "description": "The time",
            "parameters": {"type": "object", "properties": {}}}}])"));
}

// The answer in pieces that end at these places of its text, in rising order.
inline ReadAnswer read_answer(const AnswerParser::Options& options, std::string_view text,
                              const std::vector<std::size_t>& cuts = {}, bool cut = false) {
    AnswerParser parser(options);
    ReadAnswer answer;
    const auto push = [&](std::string_view piece) {
        std::vector<OutputPart> parts;
        parser.push(piece, parts);
        answer.add(parts);
    };
    std::size_t at = 0;
    for (const std::size_t end : cuts) {
        push(text.substr(at, end - at));
        at = end;
    }
    push(text.substr(at));
    std::vector<OutputPart> parts;
    parser.finish(cut, parts);
    answer.add(parts);
    return answer;
}

inline AnswerParser::Options reading(std::string_view tools, std::string_view reasoning = {},
                                     bool in_thought = false) {
    AnswerParser::Options options;
    options.format = {find_tool_format(tools), find_reasoning_format(reasoning)};
    options.in_thought = in_thought;
    options.tools = demo_tools();
    options.id_seed = 7;
    return options;
}

}  // namespace helix::text::test_support
