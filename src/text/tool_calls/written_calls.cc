#include "text/tool_calls/written_calls.h"

#include <cctype>
#include <utility>

#include "text/tool_calls/json_reader.h"
#include "text/tool_calls/literal.h"

namespace helix::text {
namespace {

constexpr std::size_t kMaxPythonNameBytes = 256;

void tell(PartSink& sink, const WrittenCall& call) {
    sink.begin_call(call.name);
    sink.arguments(call.arguments);
    sink.end_call();
}

bool may_be_in_name(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-';
}

}  // namespace

CallProgress PythonCallScan::push(char byte) {
    text_ += byte;
    if (quote_ != 0) {
        if (escaped_) {
            escaped_ = false;
        } else if (byte == '\\') {
            escaped_ = true;
        } else if (byte == quote_) {
            quote_ = 0;
        }
        return CallProgress::more;
    }
    if (open_.empty()) {
        if (byte == '(' && text_.size() > 1) {
            open_ = ")";
        } else if (!may_be_in_name(byte) || text_.size() > kMaxPythonNameBytes) {
            return CallProgress::bad;
        }
        return CallProgress::more;
    }
    if (byte == '"' || byte == '\'') quote_ = byte;
    if (byte == '(') open_ += ')';
    if (byte == '[') open_ += ']';
    if (byte == '{') open_ += '}';
    if (byte != ')' && byte != ']' && byte != '}') return CallProgress::more;
    if (open_.back() != byte) return CallProgress::bad;
    open_.pop_back();
    return open_.empty() ? CallProgress::done : CallProgress::more;
}

PythonicCalls::PythonicCalls(CallContext context, const PythonicForm& form)
    : context_(context),
      form_(form),
      search_(form.opener.empty() ? std::vector<std::string_view>{}
                                  : std::vector{form.opener, form.closer}),
      state_(form.opener.empty() ? State::begin : State::outside) {}

void PythonicCalls::push(char byte) {
    switch (state_) {
        case State::begin:
            raw_ += byte;
            if (is_json_blank(byte)) return;
            if (byte == '[') {
                state_ = State::list;
                return;
            }
            raw_.pop_back();
            state_ = State::outside;
            context_.sink.content(std::exchange(raw_, {}));
            return outside(byte);
        case State::outside:
            return outside(byte);
        case State::list:
            return in_list(byte);
        case State::call:
            return in_call(byte);
        case State::after_call:
            return after_call(byte);
    }
}

void PythonicCalls::outside(char byte) {
    std::string text;
    const auto found = search_.push(byte, text);
    context_.sink.content(text);
    if (found != 0U) return;
    raw_ = form_.opener;
    state_ = State::list;
}

void PythonicCalls::in_list(char byte) {
    const bool opening = !form_.opener.empty() && raw_ == form_.opener && byte == '[';
    if (is_json_blank(byte) || opening) {
        raw_ += byte;
        return;
    }
    scan_ = {};
    state_ = State::call;
    in_call(byte);
}

void PythonicCalls::in_call(char byte) {
    const CallProgress progress = scan_.push(byte);
    if (progress == CallProgress::bad) return give_up(byte);
    raw_ += byte;
    if (progress != CallProgress::done) return;
    const auto call = read_python_call(scan_.text());
    const bool marked = !form_.opener.empty();
    state_ = State::outside;
    if (!call || (!marked && !context_.tools.has(call->name))) {
        return context_.sink.give_up(std::exchange(raw_, {}));
    }
    raw_.clear();
    tell(context_.sink, *call);
    state_ = State::after_call;
}

void PythonicCalls::after_call(char byte) {
    if (is_json_blank(byte)) return;
    state_ = byte == ',' ? State::list : State::outside;
    if (byte != ',' && byte != ']') outside(byte);
}

void PythonicCalls::give_up(char byte) {
    state_ = State::outside;
    context_.sink.give_up(std::exchange(raw_, {}));
    outside(byte);
}

void PythonicCalls::finish(bool /*cut*/) {
    context_.sink.content(state_ == State::outside ? search_.take() : raw_);
}

CallProgress BuiltinCall::push(char byte) {
    const CallProgress progress = scan_.push(byte);
    if (progress != CallProgress::done) return progress;
    auto call = read_python_call(scan_.text());
    constexpr std::string_view kSuffix = ".call";
    if (!call || !call->name.ends_with(kSuffix)) return CallProgress::bad;
    call->name.resize(call->name.size() - kSuffix.size());
    tell(context_.sink, *call);
    return CallProgress::done;
}

GemmaCalls::GemmaCalls(CallContext context)
    : context_(context),
      openers_({"<|tool_call>", "<start_function_call>"}),
      closers_({"<tool_call|>", "<end_function_call>"}) {}

void GemmaCalls::push(char byte) {
    if (!inside_) {
        std::string text;
        const auto found = openers_.push(byte, text);
        context_.sink.content(text);
        if (!found) return;
        inside_ = true;
        raw_ = openers_.marker(*found);
        call_.clear();
        return;
    }
    raw_ += byte;
    if (!closers_.push(byte, call_)) return;
    inside_ = false;
    const auto call = read_gemma_call(call_);
    if (!call) return context_.sink.give_up(raw_);
    tell(context_.sink, *call);
}

void GemmaCalls::finish(bool /*cut*/) {
    if (!inside_) return context_.sink.content(openers_.take());
    // The end marker may be missing where the model stops at it.
    const auto call = read_gemma_call(call_);
    if (!call) return context_.sink.give_up(raw_);
    tell(context_.sink, *call);
}

}  // namespace helix::text
