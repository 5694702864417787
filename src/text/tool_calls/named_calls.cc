#include "text/tool_calls/named_calls.h"

#include <utility>

namespace helix::text {
namespace {

// A name and what stands around it; longer text is content.
constexpr std::size_t kMaxHeadBytes = 512;

std::optional<CallHead> head_of(std::string_view name, std::string_view id = {}) {
    name = without_blanks(name);
    const bool plain =
        !name.empty() && name.find_first_of(" \n\r\t<>[]{}\"") == std::string_view::npos;
    if (!plain) return {};
    return CallHead{std::string(name), std::string(without_blanks(id))};
}

}  // namespace

// "f<sep>" since V3.1, "function<sep>f\n```json\n" before.
std::optional<CallHead> read_deepseek_head(std::string_view head) {
    constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
    const std::size_t at = head.find(kSeparator);
    if (at == std::string_view::npos) return {};
    const std::string_view after = without_blanks(head.substr(at + kSeparator.size()));
    if (after.empty()) return head_of(head.substr(0, at));
    constexpr std::string_view kFence = "```json";
    if (!after.ends_with(kFence)) return {};
    return head_of(after.substr(0, after.size() - kFence.size()));
}

// "functions.f:0<|tool_call_argument_begin|>"; all of it is the id.
std::optional<CallHead> read_kimi_head(std::string_view head) {
    constexpr std::string_view kSeparator = "<|tool_call_argument_begin|>";
    const std::size_t at = head.find(kSeparator);
    if (at == std::string_view::npos ||
        !without_blanks(head.substr(at + kSeparator.size())).empty())
        return {};
    const std::string_view id = without_blanks(head.substr(0, at));
    constexpr std::string_view kNamespace = "functions.";
    std::string_view name = id.starts_with(kNamespace) ? id.substr(kNamespace.size()) : id;
    return head_of(name.substr(0, name.rfind(':')), id);
}

// "f[ARGS]" or "f[CALL_ID]123456789[ARGS]", or the name alone.
std::optional<CallHead> read_mistral_head(std::string_view head) {
    constexpr std::string_view kArguments = "[ARGS]";
    constexpr std::string_view kId = "[CALL_ID]";
    head = without_blanks(head);
    if (head.ends_with(kArguments)) head.remove_suffix(kArguments.size());
    const std::size_t at = head.find(kId);
    if (at == std::string_view::npos) return head_of(head);
    return head_of(head.substr(0, at), head.substr(at + kId.size()));
}

std::optional<CallHead> read_tag_head(std::string_view head) {
    head = without_blanks(head);
    if (!head.ends_with('>')) return {};
    return head_of(head.substr(0, head.size() - 1));
}

std::optional<CallHead> read_line_head(std::string_view head) {
    if (head.find('\n') == std::string_view::npos) return {};
    return head_of(head);
}

NamedCalls::NamedCalls(CallContext context, const NamedCallsForm& form)
    : context_(context),
      form_(form),
      search_(joined_markers(form.openers, form.fillers)),
      state_(form.begins_in_head ? State::head : State::outside) {}

void NamedCalls::push(char byte) {
    switch (state_) {
        case State::outside:
            return outside(byte);
        case State::head:
            return in_head(byte);
        case State::arguments:
            return in_arguments(byte);
        case State::list:
            return in_list(byte);
    }
}

void NamedCalls::outside(char byte) {
    std::string text;
    const auto found = search_.push(byte, text);
    context_.sink.content(text);
    if (!found) return;
    if (*found >= form_.openers.size()) {
        // An end tag without a call is text like any other.
        const bool alone = context_.sink.calls() == 0 && search_.marker(*found).starts_with("</");
        if (alone) context_.sink.content(search_.marker(*found));
        return;
    }
    state_ = State::head;
    raw_ = search_.marker(*found);
    head_.clear();
}

void NamedCalls::in_head(char byte) {
    if (byte == '{') return begin_arguments();
    head_ += byte;
    raw_ += byte;
    if (byte == '\n' && !form_.content_head.empty() &&
        without_blanks(head_) == form_.content_head) {
        state_ = State::outside;
        return;
    }
    if (head_.size() <= kMaxHeadBytes) return;
    state_ = State::outside;
    context_.sink.give_up(raw_);
}

void NamedCalls::begin_arguments() {
    const std::string_view around = without_blanks(head_);
    if (around == "[" || around.empty()) {
        state_ = State::list;
        raw_.resize(raw_.size() - head_.size());
        list_.emplace(context_, CallObjectForm{});
        if (!around.empty()) in_list('[');
        return in_list('{');
    }
    const auto head = form_.read_head(head_);
    if (!head) return give_up('{');
    context_.sink.begin_call(head->name, head->id);
    reader_ = {};
    state_ = State::arguments;
    in_arguments('{');
}

void NamedCalls::in_arguments(char byte) {
    std::string text;
    reader_.push(byte, text);
    if (reader_.at() == JsonReader::At::bad) return give_up(byte);
    raw_ += byte;
    context_.sink.arguments(text);
    if (reader_.at() != JsonReader::At::done) return;
    context_.sink.end_call();
    state_ = State::outside;
}

void NamedCalls::in_list(char byte) {
    const CallProgress progress = list_->push(byte);
    if (list_->raw().empty()) raw_.clear();
    if (progress == CallProgress::more) return;
    state_ = State::outside;
    if (progress == CallProgress::done) return;
    std::string raw = list_->raw();
    if (!raw.empty()) raw.pop_back();
    if (progress == CallProgress::bad) context_.sink.give_up(raw_ + raw);
    push(byte);
}

// The byte may begin a marker.
void NamedCalls::give_up(char byte) {
    state_ = State::outside;
    context_.sink.give_up(raw_);
    push(byte);
}

void NamedCalls::finish(bool cut) {
    if (state_ == State::list) {
        end_unfinished(context_.sink, raw_ + list_->raw(), cut);
    } else if (state_ == State::outside) {
        context_.sink.content(search_.take());
    } else {
        end_unfinished(context_.sink, raw_, cut);
    }
}

}  // namespace helix::text
