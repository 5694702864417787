#include "text/tool_calls/json_calls.h"

#include <utility>

namespace helix::text {
JsonCalls::JsonCalls(CallContext context, const JsonCallsForm& form)
    : context_(context),
      form_(form),
      search_(joined_markers(form.openers, form.closers)),
      state_(form.bare ? State::begin : State::outside) {}

void JsonCalls::push(char byte) {
    if (state_ == State::inside) return inside(byte);
    if (state_ == State::builtin) return in_builtin(byte);
    if (state_ == State::begin) {
        // Some models part calls by semicolons.
        const bool blank = is_json_blank(byte) || (byte == ';' && context_.sink.calls() > 0);
        if (blank) {
            blanks_ += byte;
            return;
        }
        if (byte == '{' || byte == '[') {
            begin(std::exchange(blanks_, {}), true);
            bare_ = true;
            return inside(byte);
        }
        state_ = State::outside;
        for (const char blank_byte : std::exchange(blanks_, {})) outside(blank_byte);
    }
    outside(byte);
}

void JsonCalls::begin(std::string_view raw, bool known_only) {
    state_ = State::inside;
    bare_ = false;
    marker_ = raw;
    CallObjectForm form = form_.object;
    form.known_only = form.known_only || known_only;
    calls_.emplace(context_, form);
}

void JsonCalls::outside(char byte) {
    std::string text;
    const auto found = search_.push(byte, text);
    context_.sink.content(text);
    if (!found) return;
    if (*found < form_.openers.size()) {
        begin(search_.marker(*found), false);
    } else if (!std::exchange(after_call_, false)) {
        context_.sink.content(search_.marker(*found));
    }
}

void JsonCalls::inside(char byte) {
    const bool first = calls_->raw().empty() && !marker_.empty() && !bare_;
    if (first && form_.builtins && byte != '{' && byte != '[' && !is_json_blank(byte)) {
        state_ = State::builtin;
        builtin_.emplace(context_);
        return in_builtin(byte);
    }
    const CallProgress progress = calls_->push(byte);
    if (calls_->raw().empty()) marker_.clear();
    if (progress == CallProgress::more) return;
    after_call_ = progress != CallProgress::bad;
    state_ = bare_ && progress != CallProgress::bad ? State::begin : State::outside;
    if (progress == CallProgress::done) return;
    // The byte may begin a marker.
    std::string raw = marker_ + calls_->raw();
    if (!raw.empty()) raw.pop_back();
    if (progress == CallProgress::bad) context_.sink.give_up(raw);
    push(byte);
}

// marker_ is all its text.
void JsonCalls::in_builtin(char byte) {
    const CallProgress progress = builtin_->push(byte);
    marker_ += byte;
    if (progress == CallProgress::more) return;
    state_ = State::outside;
    if (progress == CallProgress::bad) context_.sink.give_up(marker_);
}

void JsonCalls::finish(bool cut) {
    if (state_ == State::builtin) {
        context_.sink.content(marker_);
    } else if (state_ == State::inside) {
        end_unfinished(context_.sink, marker_ + calls_->raw(), cut);
    } else {
        context_.sink.content(blanks_);
        context_.sink.content(search_.take());
    }
}

}  // namespace helix::text
