#include "api/writers/openai_shape.h"

#include "api/json_text.h"
#include "base/check.h"
#include "base/overloaded.h"

namespace helix::api {
namespace {

using base::Overloaded;
using text::ContentText;
using text::OutputPart;
using text::ReasoningText;
using text::ToolCallDelta;

void append_text_field(std::string& out, std::string_view name, std::string_view text) {
    out += '"';
    out += name;
    out += "\":";
    append_json_string(out, text);
}

// An item of tool_calls. One that begins its call says the call's id and name.
void append_call(std::string& out, const ToolCallDelta& call, bool begins) {
    if (begins) {
        append_text_field(out, "id", call.id);
        out += ",\"type\":\"function\",";
    }
    out += "\"function\":{";
    if (begins) {
        append_text_field(out, "name", call.name);
        out += ',';
    }
    append_text_field(out, "arguments", call.arguments);
    out += '}';
}

void append_chat_delta(std::string& out, const OutputPart& part) {
    out += ",\"delta\":{";
    std::visit(Overloaded{[&](const ContentText& content) {
                              append_text_field(out, "content", content.text);
                          },
                          [&](const ReasoningText& reasoning) {
                              append_text_field(out, "reasoning_content", reasoning.text);
                          },
                          [&](const ToolCallDelta& call) {
                              out += "\"tool_calls\":[{\"index\":";
                              append_json_number(out, static_cast<std::int64_t>(call.index));
                              out += ',';
                              append_call(out, call, !call.id.empty() || !call.name.empty());
                              out += "}]";
                          }},
               part);
    out += '}';
}

// The content is null where there are only calls.
void append_chat_message(std::string& out, const std::vector<OutputPart>& parts) {
    std::string content;
    std::string reasoning;
    std::vector<ToolCallDelta> calls;
    for (const OutputPart& part : parts) {
        std::visit(Overloaded{[&](const ContentText& more) { content += more.text; },
                              [&](const ReasoningText& more) { reasoning += more.text; },
                              [&](const ToolCallDelta& more) {
                                  const auto index = static_cast<std::size_t>(more.index);
                                  if (index >= calls.size()) calls.resize(index + 1);
                                  calls[index].id += more.id;
                                  calls[index].name += more.name;
                                  calls[index].arguments += more.arguments;
                              }},
                   part);
    }
    out += ",\"message\":{\"role\":\"assistant\",";
    if (content.empty() && !calls.empty()) {
        out += "\"content\":null";
    } else {
        append_text_field(out, "content", content);
    }
    if (!reasoning.empty()) {
        out += ',';
        append_text_field(out, "reasoning_content", reasoning);
    }
    for (std::size_t i = 0; i < calls.size(); ++i) {
        out += i > 0 ? ",{" : ",\"tool_calls\":[{";
        append_call(out, calls[i], true);
        out += i + 1 < calls.size() ? "}" : "}]";
    }
    out += ",\"refusal\":null}";
}

// A prompt that its client wrote as a whole is continued as it is: nothing is read out of the text.
std::string_view plain_text(const OutputPart& part) {
    return std::visit(
        Overloaded{[](const ContentText& content) -> std::string_view { return content.text; },
                   [](const ReasoningText&) -> std::string_view {
                       CHECK(false);
                       return {};
                   },
                   [](const ToolCallDelta&) -> std::string_view {
                       CHECK(false);
                       return {};
                   }},
        part);
}

void append_plain_delta(std::string& out, const OutputPart& part) {
    out += ',';
    append_text_field(out, "text", plain_text(part));
}

void append_plain_text(std::string& out, const std::vector<OutputPart>& parts) {
    std::string text;
    for (const OutputPart& part : parts) text += plain_text(part);
    out += ',';
    append_text_field(out, "text", text);
}

}  // namespace

const OpenAiShape& chat_shape() {
    static constexpr OpenAiShape kShape = {
        .id_prefix = "chatcmpl-",
        .whole_object = "chat.completion",
        .chunk_object = "chat.completion.chunk",
        .logprobs = LogprobText::Form::chat,
        .first_delta = ",\"delta\":{\"role\":\"assistant\",\"content\":\"\"}",
        .append_delta = append_chat_delta,
        .last_delta = ",\"delta\":{}",
        .append_whole = append_chat_message};
    return kShape;
}

const OpenAiShape& completions_shape() {
    static constexpr OpenAiShape kShape = {.id_prefix = "cmpl-",
                                           .whole_object = "text_completion",
                                           .chunk_object = "text_completion",
                                           .logprobs = LogprobText::Form::completions,
                                           .first_delta = "",
                                           .append_delta = append_plain_delta,
                                           .last_delta = ",\"text\":\"\"",
                                           .append_whole = append_plain_text};
    return kShape;
}

std::string openai_head(std::string_view object, const AnswerHead& head) {
    std::string out = "{\"id\":";
    append_json_string(out, head.id);
    out += ",\"object\":";
    append_json_string(out, object);
    out += ",\"created\":";
    append_json_number(out, head.created);
    out += ",\"model\":";
    append_json_string(out, head.model);
    out += ",\"system_fingerprint\":\"fp_helix\",\"choices\":";
    return out;
}

void append_openai_usage(std::string& out, const Usage& usage) {
    out += "{\"prompt_tokens\":";
    append_json_number(out, usage.prompt_tokens);
    out += ",\"completion_tokens\":";
    append_json_number(out, usage.completion_tokens);
    out += ",\"total_tokens\":";
    append_json_number(out, usage.prompt_tokens + usage.completion_tokens);
    out += ",\"prompt_tokens_details\":{\"cached_tokens\":";
    append_json_number(out, usage.cached_tokens);
    out += "},\"completion_tokens_details\":{\"reasoning_tokens\":";
    append_json_number(out, usage.reasoning_tokens);
    out += "}}";
}

std::string_view openai_finish_name(core::FinishReason reason, bool calls) {
    if (reason != core::FinishReason::stop) return "length";
    return calls ? "tool_calls" : "stop";
}

}  // namespace helix::api
