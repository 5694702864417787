#include "api/writers/responses_stream.h"

#include <type_traits>
#include <utility>

#include "api/json_text.h"
#include "base/check.h"
#include "base/overloaded.h"
#include "net/sse.h"

namespace helix::api {
namespace {

using base::Overloaded;
using text::ContentText;
using text::OutputPart;
using text::ReasoningText;
using text::ToolCallDelta;

std::string_view id_prefix_of(const OutputPart& part) {
    return std::visit(Overloaded{[](const ContentText&) -> std::string_view { return "msg_"; },
                                 [](const ReasoningText&) -> std::string_view { return "rs_"; },
                                 [](const ToolCallDelta&) -> std::string_view { return "fc_"; }},
                      part);
}

void append_output_item(std::string& out, std::string_view id, ResponseStatus status,
                        const OutputPart& part) {
    std::visit(
        Overloaded{
            [&](const ContentText& content) { append_message_item(out, id, status, content.text); },
            [&](const ReasoningText& thoughts) {
                append_reasoning_item(out, id, status, thoughts.text);
            },
            [&](const ToolCallDelta& call) { append_call_item(out, id, status, call); }},
        part);
}

// Whether part goes on with the item that begins with first.
bool same_item(const OutputPart& first, const OutputPart& part) {
    if (first.index() != part.index()) return false;
    const auto* call = std::get_if<ToolCallDelta>(&first);
    return call == nullptr || call->index == std::get<ToolCallDelta>(part).index;
}

// The text that grows while the item goes on. Part: an OutputPart, const or not.
template <typename Part>
auto& growing_text(Part& part) {
    using Text = std::conditional_t<std::is_const_v<Part>, const std::string, std::string>;
    return std::visit(
        Overloaded{
            [](base::OneOf<ContentText, ReasoningText> auto& more) -> Text& { return more.text; },
            [](base::OneOf<ToolCallDelta> auto& call) -> Text& { return call.arguments; }},
        part);
}

}  // namespace

std::string_view ResponsesStream::content_type() const {
    return net::kSseContentType;
}

std::string_view ResponsesStream::ping() const {
    return net::kSsePing;
}

void ResponsesStream::event(std::string& out, std::string_view type) {
    out += "event: ";
    out += type;
    out += "\ndata: {\"type\":\"";
    out += type;
    out += "\",\"sequence_number\":";
    append_json_number(out, number_++);
}

void ResponsesStream::item_event(std::string& out, std::string_view type, bool of_content) {
    event(out, type);
    out += ",\"item_id\":\"";
    out += item_id_;
    out += "\",\"output_index\":";
    append_json_number(out, output_index_);
    if (of_content) out += ",\"content_index\":0";
}

void ResponsesStream::response_event(std::string& out, std::string_view type, ResponseStatus status,
                                     const Usage* usage, const ApiError* error) {
    event(out, type);
    out += ",\"response\":";
    object_.append(out, status, output_, usage, error);
    out += "}\n\n";
}

void ResponsesStream::begin(std::string& out, const Usage& /*usage*/) {
    constexpr auto kStatus = ResponseStatus::in_progress;
    response_event(out, "response.created", kStatus, nullptr, nullptr);
    response_event(out, "response.in_progress", kStatus, nullptr, nullptr);
}

// Log-probabilities are not asked for.
void ResponsesStream::add_tokens(std::size_t /*choice*/,
                                 std::span<const core::ProducedToken> /*tokens*/) {}

void ResponsesStream::add_parts(std::string& out, std::size_t /*choice*/,
                                std::vector<OutputPart> parts, const Progress& /*progress*/) {
    for (const OutputPart& part : parts) {
        const bool call = std::holds_alternative<ToolCallDelta>(part);
        const std::string& text = growing_text(part);
        if (!call && text.empty()) continue;
        go_on(out, part);
        if (call && std::get<ToolCallDelta>(part).complete) {
            std::get<ToolCallDelta>(*item_).complete = true;
        }
        if (text.empty()) continue;
        growing_text(*item_) += text;
        if (call) {
            item_event(out, "response.function_call_arguments.delta", false);
        } else {
            item_event(out,
                       thinks() ? "response.reasoning_text.delta" : "response.output_text.delta",
                       true);
        }
        out += ",\"delta\":";
        append_json_string(out, text);
        out += call || thinks() ? "}\n\n" : ",\"logprobs\":[]}\n\n";
    }
}

void ResponsesStream::go_on(std::string& out, const OutputPart& part) {
    if (item_ && same_item(*item_, part)) return;
    close(out, ResponseStatus::completed);
    item_ = part;
    growing_text(*item_).clear();
    item_id_ = object_.item_id(id_prefix_of(part), output_index_);
    event(out, "response.output_item.added");
    out += ",\"output_index\":";
    append_json_number(out, output_index_);
    out += ",\"item\":";
    append_output_item(out, item_id_, ResponseStatus::in_progress, *item_);
    out += "}\n\n";
    if (std::holds_alternative<ToolCallDelta>(part)) return;
    item_event(out, "response.content_part.added", true);
    out += ",\"part\":";
    append_text_part(out, thinks(), "");
    out += "}\n\n";
}

void ResponsesStream::close_text(std::string& out) {
    const std::string& text = growing_text(*item_);
    item_event(out, thinks() ? "response.reasoning_text.done" : "response.output_text.done", true);
    out += ",\"text\":";
    append_json_string(out, text);
    out += thinks() ? "}\n\n" : ",\"logprobs\":[]}\n\n";
    item_event(out, "response.content_part.done", true);
    out += ",\"part\":";
    append_text_part(out, thinks(), text);
    out += "}\n\n";
}

void ResponsesStream::close(std::string& out, ResponseStatus status) {
    if (!item_) return;
    if (const auto* call = std::get_if<ToolCallDelta>(&*item_)) {
        if (!call->complete) status = ResponseStatus::incomplete;
        item_event(out, "response.function_call_arguments.done", false);
        out += ",\"name\":";
        append_json_string(out, call->name);
        out += ",\"arguments\":";
        append_json_string(out, call->arguments);
        out += "}\n\n";
    } else {
        close_text(out);
    }
    std::string item;
    append_output_item(item, item_id_, status, *item_);
    event(out, "response.output_item.done");
    out += ",\"output_index\":";
    append_json_number(out, output_index_);
    out += ",\"item\":" + item + "}\n\n";
    output_ += output_.empty() ? "" : ",";
    output_ += item;
    item_.reset();
    ++output_index_;
}

void ResponsesStream::finish(std::string& out, std::size_t /*choice*/, const ChoiceEnd& end,
                             const Progress& progress) {
    const ResponseStatus status = status_of(end);
    close(out, status);
    std::string object;
    object_.append(object, status, output_, &progress.usage, nullptr);
    if (on_response_) on_response_(object);
    event(out, status == ResponseStatus::completed ? "response.completed" : "response.incomplete");
    out += ",\"response\":" + object + "}\n\n";
}

void ResponsesStream::end(std::string& /*out*/, const Usage& /*usage*/) {}

// The last event has the error at its top, too, which is where clients look for one.
void ResponsesStream::error(std::string& out, const ApiError& error) {
    response_event(out, "response.failed", ResponseStatus::failed, nullptr, &error);
    event(out, "error");
    const std::string body = error_json(error);  // {"error":{...}}
    const std::string_view fields = std::string_view(body).substr(body.find(":{") + 2);
    out += ",\"code\":";
    append_json_string(out, error.code.empty() ? "server_error" : error.code);
    out += ",\"message\":";
    append_json_string(out, short_message(error));
    out += ",\"param\":null,\"error\":{";
    out += fields;
    out += "\n\n";
}

std::string ResponsesWhole::write(const WholeAnswer& answer) const {
    CHECK(answer.choices.size() == 1);
    const WholeChoice& choice = answer.choices.front();
    const ResponseStatus status = status_of(choice.end);
    std::string output;
    std::int64_t index = 0;
    for (std::size_t i = 0; i < choice.parts.size(); ++i) {
        const OutputPart& part = choice.parts[i];
        const bool call = std::holds_alternative<ToolCallDelta>(part);
        if (!call && text::text_bytes(part) == 0) continue;
        const bool last = i + 1 == choice.parts.size();
        output += output.empty() ? "" : ",";
        append_output_item(output, object_.item_id(id_prefix_of(part), index++),
                           last ? status : ResponseStatus::completed, part);
    }
    std::string out;
    object_.append(out, status, output, &answer.usage, nullptr);
    if (on_response_) on_response_(out);
    return out;
}

}  // namespace helix::api
