#include "text/tool_calls/harmony_calls.h"

#include <utility>

namespace helix::text {
namespace {

constexpr std::size_t kMaxHeaderBytes = 512;
constexpr std::string_view kChannel = "<|channel|>";

// What follows mark in a message's header, up to the next blank or marker; "" if it is not there.
std::string_view word_after(std::string_view header, std::string_view mark) {
    const std::size_t at = header.find(mark);
    if (at == std::string_view::npos) return {};
    const std::string_view rest = header.substr(at + mark.size());
    return rest.substr(0, rest.find_first_of(" <\n"));
}

}  // namespace

HarmonyCalls::HarmonyCalls(CallContext context)
    : context_(context),
      header_end_({"<|message|>"}),
      message_end_({"<|end|>", "<|call|>", "<|return|>", "<|start|>", kChannel}) {}

void HarmonyCalls::push(char byte) {
    if (state_ == State::header) return in_header(byte);
    std::string text;
    const auto found = message_end_.push(byte, text);
    pass(text);
    if (!found) return;
    end_message(false);
    if (message_end_.marker(*found) == kChannel) header_ = kChannel;
}

void HarmonyCalls::in_header(char byte) {
    const std::size_t before = header_.size();
    if (header_end_.push(byte, header_)) return begin_message();
    if (header_.size() == before) return;
    // An answer without any header is content.
    const bool begins_one = header_.front() == '<' || is_json_blank(header_.front()) || !first_;
    if (begins_one && header_.size() <= kMaxHeaderBytes) return;
    first_ = false;
    state_ = State::content;
    pass(std::exchange(header_, {}) + header_end_.take());
}

void HarmonyCalls::begin_message() {
    first_ = false;
    const std::string header = std::exchange(header_, {});
    const std::string_view channel = word_after(header, kChannel);
    const std::string_view recipient = word_after(header, "to=");
    constexpr std::string_view kFunctions = "functions.";
    if (recipient.starts_with(kFunctions)) {
        return begin_call(recipient.substr(kFunctions.size()));
    }
    if (context_.tools.has(recipient)) return begin_call(recipient);
    const bool answers = recipient.empty() || recipient == "assistant" || recipient == "user";
    if (channel == "analysis" || !answers) {
        state_ = State::reasoning;
        context_.sink.begin_reasoning();
    } else {
        state_ = State::content;
        context_.sink.new_paragraph();
    }
}

void HarmonyCalls::begin_call(std::string_view name) {
    if (name.empty() || context_.tools.empty()) {
        state_ = State::content;
        context_.sink.new_paragraph();
        return;
    }
    state_ = State::call;
    raw_.clear();
    reader_ = {};
    context_.sink.begin_call(name);
}

void HarmonyCalls::pass(std::string_view text) {
    if (state_ == State::content) return context_.sink.content(text);
    if (state_ == State::reasoning) return context_.sink.reasoning(text);
    for (const char byte : text) {
        if (state_ == State::called) return;
        if (state_ == State::content) {
            context_.sink.content({&byte, 1});
            continue;
        }
        raw_ += byte;
        std::string checked;
        const bool begins = reader_.at() == JsonReader::At::value && reader_.depth() == 0;
        reader_.push(byte, checked);
        if (reader_.at() == JsonReader::At::bad ||
            (begins && byte != '{' && !is_json_blank(byte))) {
            state_ = State::content;
            context_.sink.give_up(raw_);
            continue;
        }
        if (!begins || byte == '{') context_.sink.arguments(checked);
        if (reader_.at() == JsonReader::At::done) {
            state_ = State::called;
            context_.sink.end_call();
        }
    }
}

void HarmonyCalls::end_message(bool cut) {
    if (state_ == State::reasoning) context_.sink.end_reasoning();
    if (state_ == State::call && raw_.find_first_not_of(" \n\r\t") == std::string::npos && !cut) {
        context_.sink.arguments("{}");
        context_.sink.end_call();
    } else if (state_ == State::call) {
        end_unfinished(context_.sink, raw_, cut);
    }
    state_ = State::header;
}

void HarmonyCalls::finish(bool cut) {
    if (state_ == State::header) {
        // Half a header says nothing, but for a text that never had one.
        if (first_) context_.sink.content(header_ + header_end_.take());
        return;
    }
    pass(message_end_.take());
    end_message(cut);
}

}  // namespace helix::text
