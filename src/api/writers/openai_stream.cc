#include "api/writers/openai_stream.h"

#include <utility>

#include "api/json_text.h"
#include "net/sse.h"

namespace helix::api {
namespace {

// The most bytes of log-probabilities that wait for text to go with.
constexpr std::size_t kWaitingLogprobBytes = std::size_t{16} << 10U;

}  // namespace

OpenAiStream::OpenAiStream(const OpenAiShape& shape, const AnswerHead& head, const TextCodec& codec,
                           Options options, const std::vector<PromptEcho>& echoes)
    : shape_(shape),
      options_(options),
      chunk_head_("data: " + openai_head(shape.chunk_object, head)) {
    for (const PromptEcho& echo : echoes) {
        for (std::size_t i = 0; i < options.choices_of_prompt; ++i) {
            Choice& choice = choices_.emplace_back(
                Choice{.logprobs = LogprobText(shape.logprobs, codec), .echo = echo.text});
            if (echo.first) choice.logprobs.add_first(*echo.first);
        }
    }
}

std::string_view OpenAiStream::content_type() const {
    return net::kSseContentType;
}

std::string_view OpenAiStream::ping() const {
    return net::kSsePing;
}

// There is nothing before the first chunk of a choice.
void OpenAiStream::begin(std::string& /*out*/, const Usage& /*usage*/) {}

void OpenAiStream::add_tokens(std::size_t choice, std::span<const core::ProducedToken> tokens) {
    for (const core::ProducedToken& token : tokens) choices_[choice].logprobs.add(token);
}

// Without text log-probabilities wait until there is text to go with them. Clients that ask for
// usage in every chunk are told of each token when it comes.
void OpenAiStream::add_parts(std::string& out, std::size_t choice,
                             std::vector<text::OutputPart> parts, const Progress& progress) {
    Choice& c = choices_[choice];
    const bool counted = options_.continuous_usage && progress.choice_tokens > c.told_tokens;
    const bool echoes = c.echo != nullptr && !c.echo->empty();
    const bool many = c.logprobs.bytes() > kWaitingLogprobBytes;
    if (parts.empty() && !echoes && !counted && !many) return;
    c.told_tokens = progress.choice_tokens;
    if (echoes) {
        std::vector<text::OutputPart> echoed{text::ContentText{*c.echo}};
        for (text::OutputPart& part : parts) text::append_part(echoed, std::move(part));
        parts = std::move(echoed);
    }
    c.echo = nullptr;
    if (parts.empty()) parts.emplace_back(text::ContentText{});
    start(out, choice, progress.usage);
    for (text::OutputPart& part : parts) {
        auto* call = std::get_if<text::ToolCallDelta>(&part);
        // Clients want who is called in a chunk of its own.
        if (call != nullptr && !call->name.empty() && !call->arguments.empty()) {
            text::ToolCallDelta head{
                call->index, std::exchange(call->id, {}), std::exchange(call->name, {}), {}};
            chunk(out, choice, std::move(head), progress.usage);
        }
        chunk(out, choice, part, progress.usage);
    }
}

void OpenAiStream::start(std::string& out, std::size_t choice, const Usage& usage) {
    if (std::exchange(choices_[choice].started, true) || shape_.first_delta.empty()) return;
    open(out, choice);
    out += shape_.first_delta;
    close(out, "null", "", usage);
}

void OpenAiStream::chunk(std::string& out, std::size_t choice, const text::OutputPart& part,
                         const Usage& usage) {
    Choice& c = choices_[choice];
    if (const auto* call = std::get_if<text::ToolCallDelta>(&part)) {
        c.calls = c.calls || call->complete;
        // The end of a call that brings nothing new says nothing.
        if (call->complete && call->name.empty() && call->arguments.empty()) return;
    }
    open(out, choice);
    shape_.append_delta(out, part);
    close(out, c.logprobs.take(), "", usage);
}

void OpenAiStream::open(std::string& out, std::size_t choice) const {
    out += chunk_head_;
    out += "[{\"index\":";
    append_json_number(out, static_cast<std::int64_t>(choice));
}

void OpenAiStream::close(std::string& out, std::string_view logprobs,
                         std::string_view finish_reason, const Usage& usage) const {
    out += ",\"logprobs\":";
    out += logprobs;
    if (finish_reason.empty()) {
        out += ",\"finish_reason\":null}]";
    } else {
        out += ",\"finish_reason\":\"";
        out += finish_reason;
        out += "\"}]";
    }
    if (options_.continuous_usage) {
        out += ",\"usage\":";
        append_openai_usage(out, usage);
    } else if (options_.include_usage) {
        out += ",\"usage\":null";
    }
    out += "}\n\n";
}

void OpenAiStream::finish(std::string& out, std::size_t choice, const ChoiceEnd& end,
                          const Progress& progress) {
    Choice& c = choices_[choice];
    start(out, choice, progress.usage);
    if (!c.logprobs.empty()) chunk(out, choice, text::ContentText{}, progress.usage);
    open(out, choice);
    out += shape_.last_delta;
    close(out, "null", openai_finish_name(end.reason, c.calls), progress.usage);
}

void OpenAiStream::end(std::string& out, const Usage& usage) {
    if (options_.include_usage) {
        out += chunk_head_;
        out += "[],\"usage\":";
        append_openai_usage(out, usage);
        out += "}\n\n";
    }
    out += net::kSseDone;
}

// Whoever reads on finds no [DONE].
void OpenAiStream::error(std::string& out, const ApiError& error) {
    net::append_sse_event(out, error_json(error));
}

}  // namespace helix::api
