#include "api/writers/ollama_shape.h"

#include <ctime>

#include <fmt/chrono.h>

#include "api/json_text.h"
#include "api/writers/call_arguments.h"
#include "base/overloaded.h"

namespace helix::api {
namespace {

using text::ContentText;
using text::OutputPart;
using text::ReasoningText;
using text::ToolCallDelta;

void append_ollama_call(std::string& calls, const ToolCallDelta& call) {
    calls += calls.empty() ? "{\"id\":" : ",{\"id\":";
    append_json_string(calls, call.id);
    calls += ",\"function\":{\"index\":";
    append_json_number(calls, static_cast<std::int64_t>(call.index));
    calls += ",\"name\":";
    append_json_string(calls, call.name);
    calls += ",\"arguments\":" + arguments_object(call.arguments) + "}}";
}

void append_count(std::string& out, std::string_view name, std::int64_t value) {
    out += ",\"";
    out += name;
    out += "\":";
    append_json_number(out, value);
}

}  // namespace

std::string ollama_time(std::int64_t unix_seconds) {
    return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                       fmt::gmtime(static_cast<std::time_t>(unix_seconds)));
}

OllamaObjects::OllamaObjects(OllamaForm form, const AnswerHead& head) : form_(form) {
    head_ = "{\"model\":";
    append_json_string(head_, head.model);
    head_ += ",\"created_at\":\"" + ollama_time(head.created) + "\",";
    head_ +=
        form == OllamaForm::chat ? R"("message":{"role":"assistant","content":)" : R"("response":)";
}

void OllamaObjects::append_parts(std::string& out, const std::vector<OutputPart>& parts) const {
    std::string content;
    std::string thinking;
    std::string calls;
    for (const OutputPart& part : parts) {
        std::visit(
            base::Overloaded{[&](const ContentText& more) { content += more.text; },
                             [&](const ReasoningText& more) { thinking += more.text; },
                             [&](const ToolCallDelta& call) { append_ollama_call(calls, call); }},
            part);
    }
    out += head_;
    append_json_string(out, content);
    if (!thinking.empty()) {
        out += ",\"thinking\":";
        append_json_string(out, thinking);
    }
    if (!calls.empty()) out += ",\"tool_calls\":[" + calls + ']';
    if (form_ == OllamaForm::chat) out += '}';
}

void OllamaObjects::append(std::string& out, const std::vector<OutputPart>& parts) const {
    append_parts(out, parts);
    out += ",\"done\":false}";
}

void OllamaObjects::append_last(std::string& out, const std::vector<OutputPart>& parts,
                                const ChoiceEnd& end, const Usage& usage) const {
    append_parts(out, parts);
    const bool stop = end.reason == core::FinishReason::stop;
    out += ",\"done\":true,\"done_reason\":\"";
    out += stop ? "stop\"" : "length\"";
    append_count(out, "total_duration", usage.times.all.ns);
    append_count(out, "load_duration", usage.times.waiting.ns);
    append_count(out, "prompt_eval_count", usage.prompt_tokens);
    append_count(out, "prompt_eval_duration", usage.times.prompt.ns);
    append_count(out, "eval_count", usage.completion_tokens);
    append_count(out, "eval_duration", usage.times.answer.ns);
    out += '}';
}

std::string OllamaObjects::loaded() const {
    std::string out;
    append_parts(out, {});
    return out + ",\"done\":true,\"done_reason\":\"load\"}";
}

}  // namespace helix::api
