#include "api/writers/anthropic_whole.h"

#include "api/json_text.h"
#include "api/writers/call_arguments.h"
#include "base/check.h"
#include "base/overloaded.h"

namespace helix::api {
namespace {

void append_block(std::string& out, const text::OutputPart& part, std::string_view signature) {
    std::visit(base::Overloaded{[&](const text::ContentText& content) {
                                    out += R"({"type":"text","text":)";
                                    append_json_string(out, content.text);
                                },
                                [&](const text::ReasoningText& reasoning) {
                                    out += R"({"type":"thinking","thinking":)";
                                    append_json_string(out, reasoning.text);
                                    out += ",\"signature\":";
                                    append_json_string(out, signature);
                                },
                                [&](const text::ToolCallDelta& call) {
                                    out += R"({"type":"tool_use","id":)";
                                    append_json_string(out, call.id);
                                    out += ",\"name\":";
                                    append_json_string(out, call.name);
                                    out += ",\"input\":" + arguments_object(call.arguments);
                                }},
               part);
    out += '}';
}

}  // namespace

std::string AnthropicWhole::write(const WholeAnswer& answer) const {
    CHECK(answer.choices.size() == 1);
    const WholeChoice& choice = answer.choices.front();
    std::string out = head_ + '[';
    bool calls = false;
    for (const text::OutputPart& part : choice.parts) {
        const auto* call = std::get_if<text::ToolCallDelta>(&part);
        if (call == nullptr && text::text_bytes(part) == 0) continue;
        calls = calls || (call != nullptr && call->complete);
        if (out.back() != '[') out += ',';
        append_block(out, part, signature_);
    }
    out += "],";
    append_anthropic_end(out, choice.end, calls);
    out += ",\"usage\":";
    append_anthropic_usage(out, answer.usage);
    out += '}';
    return out;
}

}  // namespace helix::api
