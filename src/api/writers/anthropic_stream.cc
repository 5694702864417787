#include "api/writers/anthropic_stream.h"

#include <utility>

#include "api/json_text.h"
#include "api/protocols/protocol.h"
#include "net/sse.h"

namespace helix::api {

std::string_view AnthropicStream::content_type() const {
    return net::kSseContentType;
}

// Before message_start there is no event, not even a ping.
std::string_view AnthropicStream::ping() const {
    return started_ ? std::string_view("event: ping\ndata: {\"type\":\"ping\"}\n\n")
                    : net::kSsePing;
}

// message_start waits for the first token: it says how much of the prompt was cached.
void AnthropicStream::begin(std::string& /*out*/, const Usage& /*usage*/) {}

// There are no log-probabilities in this protocol.
void AnthropicStream::add_tokens(std::size_t /*choice*/,
                                 std::span<const core::ProducedToken> /*tokens*/) {}

void AnthropicStream::start(std::string& out, const Usage& usage) {
    if (std::exchange(started_, true)) return;
    out += "event: message_start\ndata: {\"type\":\"message_start\",\"message\":";
    out += anthropic_head(head_);
    out += R"([],"stop_reason":null,"stop_sequence":null,"usage":)";
    append_anthropic_usage(out, usage);
    out += "}}\n\n";
    out += ping();
}

void AnthropicStream::add_parts(std::string& out, std::size_t /*choice*/,
                                std::vector<text::OutputPart> parts, const Progress& progress) {
    start(out, progress.usage);
    for (const text::OutputPart& part : parts) {
        std::visit([&](const auto& one) { add(out, one); }, part);
    }
}

void AnthropicStream::add(std::string& out, const text::ContentText& content) {
    if (content.text.empty()) return;
    if (block_ != Block::text) open(out, Block::text, R"({"type":"text","text":""})");
    append_delta(out, "text_delta", "text", content.text);
}

void AnthropicStream::add(std::string& out, const text::ReasoningText& reasoning) {
    if (reasoning.text.empty()) return;
    if (block_ != Block::thinking) {
        open(out, Block::thinking, R"({"type":"thinking","thinking":"","signature":""})");
    }
    append_delta(out, "thinking_delta", "thinking", reasoning.text);
}

void AnthropicStream::add(std::string& out, const text::ToolCallDelta& call) {
    if (block_ != Block::call || call.index != call_index_) {
        std::string block = R"({"type":"tool_use","id":)";
        append_json_string(block, call.id);
        block += ",\"name\":";
        append_json_string(block, call.name);
        block += ",\"input\":{}}";
        open(out, Block::call, block);
        call_index_ = call.index;
    }
    calls_ = calls_ || call.complete;
    if (!call.arguments.empty()) {
        append_delta(out, "input_json_delta", "partial_json", call.arguments);
    }
}

void AnthropicStream::open(std::string& out, Block block, std::string_view content_block) {
    close(out);
    block_ = block;
    out += "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":";
    append_json_number(out, index_);
    out += ",\"content_block\":";
    out += content_block;
    out += "}\n\n";
}

// A thought is signed: clients give only such thoughts back. Nobody checks what with.
void AnthropicStream::close(std::string& out) {
    if (block_ == Block::none) return;
    if (block_ == Block::thinking) append_delta(out, "signature_delta", "signature", head_.id);
    block_ = Block::none;
    out += "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":";
    append_json_number(out, index_++);
    out += "}\n\n";
}

void AnthropicStream::append_delta(std::string& out, std::string_view type, std::string_view field,
                                   std::string_view text) const {
    out += "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":";
    append_json_number(out, index_);
    out += ",\"delta\":{\"type\":\"";
    out += type;
    out += "\",\"";
    out += field;
    out += "\":";
    append_json_string(out, text);
    out += "}}\n\n";
}

void AnthropicStream::finish(std::string& out, std::size_t /*choice*/, const ChoiceEnd& end,
                             const Progress& progress) {
    start(out, progress.usage);
    close(out);
    out += "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{";
    append_anthropic_end(out, end, calls_);
    out += "},\"usage\":";
    append_anthropic_usage(out, progress.usage);
    out += "}\n\n";
}

void AnthropicStream::end(std::string& out, const Usage& /*usage*/) {
    out += "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
}

void AnthropicStream::error(std::string& out, const ApiError& error) {
    out += "event: error\n";
    net::append_sse_event(out, anthropic_error_json(error, head_.request_id));
}

}  // namespace helix::api
