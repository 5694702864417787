#include "api/writers/responses_shape.h"

#include <fmt/format.h>

#include "api/json_text.h"

namespace helix::api {
namespace {

void append_item_head(std::string& out, std::string_view type, std::string_view id,
                      ResponseStatus status) {
    out += "{\"type\":\"";
    out += type;
    out += "\",\"id\":";
    append_json_string(out, id);
    out += ",\"status\":\"";
    out += name_of(status);
    out += '"';
}

void append_response_usage(std::string& out, const Usage& usage) {
    out += "{\"input_tokens\":";
    append_json_number(out, usage.prompt_tokens);
    out += ",\"input_tokens_details\":{\"cached_tokens\":";
    append_json_number(out, usage.cached_tokens);
    out += "},\"output_tokens\":";
    append_json_number(out, usage.completion_tokens);
    out += ",\"output_tokens_details\":{\"reasoning_tokens\":";
    append_json_number(out, usage.reasoning_tokens);
    out += "},\"total_tokens\":";
    append_json_number(out, usage.prompt_tokens + usage.completion_tokens);
    out += '}';
}

}  // namespace

std::string_view name_of(ResponseStatus status) {
    switch (status) {
        case ResponseStatus::in_progress:
            return "in_progress";
        case ResponseStatus::completed:
            return "completed";
        case ResponseStatus::incomplete:
            return "incomplete";
        case ResponseStatus::failed:
            break;
    }
    return "failed";
}

ResponseStatus status_of(const ChoiceEnd& end) {
    return end.reason == core::FinishReason::stop ? ResponseStatus::completed
                                                  : ResponseStatus::incomplete;
}

ResponseObject::ResponseObject(const AnswerHead& head, std::string settings)
    : word_(head.id.substr(kResponseIdPrefix.size())) {
    head_ = "{\"id\":";
    append_json_string(head_, head.id);
    head_ += ",\"object\":\"response\",\"created_at\":";
    append_json_number(head_, head.created);
    head_ += ",\"status\":\"";
    tail_ = ",\"model\":";
    append_json_string(tail_, head.model);
    tail_ += ',' + settings;
}

void ResponseObject::append(std::string& out, ResponseStatus status, std::string_view output,
                            const Usage* usage, const ApiError* error) const {
    out += head_;
    out += name_of(status);
    out += "\",\"error\":";
    if (error != nullptr) {
        out += "{\"code\":\"server_error\",\"message\":";
        append_json_string(out, short_message(*error));
        out += '}';
    } else {
        out += "null";
    }
    out += ",\"incomplete_details\":";
    out += status == ResponseStatus::incomplete ? R"({"reason":"max_output_tokens"})" : "null";
    out += tail_;
    out += ",\"output\":[";
    out += output;
    out += "],\"usage\":";
    if (usage != nullptr) {
        append_response_usage(out, *usage);
    } else {
        out += "null";
    }
    out += '}';
}

std::string ResponseObject::item_id(std::string_view prefix, std::int64_t output_index) const {
    return fmt::format("{}{}_{}", prefix, word_, output_index);
}

void append_text_part(std::string& out, bool thoughts, std::string_view text) {
    out += thoughts ? R"({"type":"reasoning_text","text":)" : R"({"type":"output_text","text":)";
    append_json_string(out, text);
    out += thoughts ? "}" : R"(,"annotations":[],"logprobs":[]})";
}

void append_message_item(std::string& out, std::string_view id, ResponseStatus status,
                         std::string_view text) {
    append_item_head(out, "message", id, status);
    out += R"(,"role":"assistant","content":[)";
    if (status != ResponseStatus::in_progress) append_text_part(out, false, text);
    out += "]}";
}

void append_reasoning_item(std::string& out, std::string_view id, ResponseStatus status,
                           std::string_view text) {
    append_item_head(out, "reasoning", id, status);
    out += R"(,"summary":[],"content":[)";
    if (status != ResponseStatus::in_progress) append_text_part(out, true, text);
    out += "]}";
}

void append_call_item(std::string& out, std::string_view id, ResponseStatus status,
                      const text::ToolCallDelta& call) {
    append_item_head(out, "function_call", id, status);
    out += ",\"call_id\":";
    append_json_string(out, call.id);
    out += ",\"name\":";
    append_json_string(out, call.name);
    out += ",\"arguments\":";
    append_json_string(out,
                       status == ResponseStatus::in_progress ? std::string_view() : call.arguments);
    out += '}';
}

}  // namespace helix::api
