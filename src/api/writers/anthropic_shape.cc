#include "api/writers/anthropic_shape.h"

#include "api/json_text.h"

namespace helix::api {

std::string anthropic_head(const AnswerHead& head) {
    std::string out = "{\"id\":";
    append_json_string(out, head.id);
    out += R"(,"type":"message","role":"assistant","model":)";
    append_json_string(out, head.model);
    out += ",\"content\":";
    return out;
}

void append_anthropic_end(std::string& out, const ChoiceEnd& end, bool calls) {
    out += "\"stop_reason\":\"";
    if (end.reason != core::FinishReason::stop) {
        out += "max_tokens";
    } else if (!end.stop_string.empty()) {
        out += "stop_sequence";
    } else {
        out += calls ? "tool_use" : "end_turn";
    }
    out += "\",\"stop_sequence\":";
    if (end.stop_string.empty()) {
        out += "null";
    } else {
        append_json_string(out, end.stop_string);
    }
}

void append_anthropic_usage(std::string& out, const Usage& usage) {
    out += "{\"input_tokens\":";
    append_json_number(out, usage.prompt_tokens - usage.cached_tokens);
    out += ",\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":";
    append_json_number(out, usage.cached_tokens);
    out += ",\"output_tokens\":";
    append_json_number(out, usage.completion_tokens);
    out += ",\"output_tokens_details\":{\"thinking_tokens\":";
    append_json_number(out, usage.reasoning_tokens);
    out += "}}";
}

}  // namespace helix::api
