#include "api/writers/ollama_stream.h"

#include <utility>

#include "api/protocols/protocol.h"
#include "base/check.h"

namespace helix::api {

void OllamaStream::begin(std::string& /*out*/, const Usage& /*usage*/) {}

// There are no log-probabilities in this protocol.
void OllamaStream::add_tokens(std::size_t /*choice*/,
                              std::span<const core::ProducedToken> /*tokens*/) {}

void OllamaStream::line(std::string& out, const text::OutputPart& part) const {
    objects_.append(out, {part});
    out += '\n';
}

void OllamaStream::tell_call(std::string& out, bool cut) {
    for (const text::OutputPart& call : std::exchange(call_, {})) {
        // The text of one that broke off follows as content.
        if (cut || std::get<text::ToolCallDelta>(call).complete) line(out, call);
    }
}

void OllamaStream::add_parts(std::string& out, std::size_t /*choice*/,
                             std::vector<text::OutputPart> parts, const Progress& /*progress*/) {
    for (text::OutputPart& part : parts) {
        if (!std::holds_alternative<text::ToolCallDelta>(part)) {
            tell_call(out, false);
            if (text::text_bytes(part) > 0) line(out, part);
            continue;
        }
        text::append_part(call_, std::move(part));
        if (call_.size() == 1) continue;
        text::OutputPart next = std::move(call_.back());
        call_.pop_back();
        tell_call(out, false);
        call_.push_back(std::move(next));
    }
}

void OllamaStream::finish(std::string& out, std::size_t /*choice*/, const ChoiceEnd& end,
                          const Progress& progress) {
    tell_call(out, end.reason == core::FinishReason::length);
    objects_.append_last(out, {}, end, progress.usage);
    out += '\n';
}

void OllamaStream::end(std::string& /*out*/, const Usage& /*usage*/) {}

void OllamaStream::error(std::string& out, const ApiError& error) {
    out += ollama_error_json(error) + '\n';
}

std::string OllamaWhole::write(const WholeAnswer& answer) const {
    CHECK(answer.choices.size() == 1);
    const WholeChoice& choice = answer.choices.front();
    std::string out;
    objects_.append_last(out, choice.parts, choice.end, answer.usage);
    return out;
}

}  // namespace helix::api
