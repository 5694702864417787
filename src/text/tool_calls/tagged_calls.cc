#include "text/tool_calls/tagged_calls.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "text/tool_calls/json_reader.h"

namespace helix::text {
namespace {

// Longer names are content.
constexpr std::size_t kMaxTagBytes = 512;

bool blank_only(std::string_view text) {
    return without_blanks(text).empty();
}

// A name as it is, in quotes, or name="...".
std::string_view plain_name(std::string_view text) {
    text = without_blanks(text);
    if (text.starts_with("name=")) text.remove_prefix(5);
    if (text.starts_with('"')) {
        text.remove_prefix(1);
        text = text.substr(0, text.find('"'));
    }
    return without_blanks(text);
}

bool fits(const nlohmann::json& value, std::uint8_t types) {
    if (types == 0) return true;
    std::uint8_t type = json_type::kObject;
    if (value.is_string()) type = json_type::kString;
    if (value.is_number()) type = json_type::kNumber;
    if (value.is_boolean()) type = json_type::kBoolean;
    if (value.is_null()) type = json_type::kNull;
    if (value.is_array()) type = json_type::kArray;
    return (types & type) != 0;
}

// The text of a JSON value. What is no JSON of an allowed type is a string.
std::string value_as_json(std::string_view text, std::uint8_t types) {
    std::string_view inside = without_blanks(text);
    // Models that were taught with Python's words write these.
    if (inside == "True") inside = "true";
    if (inside == "False") inside = "false";
    if (inside == "None") inside = "null";
    const auto value = nlohmann::json::parse(inside, nullptr, false);
    const bool json = !value.is_discarded() && fits(value, types);
    return json ? std::string(inside) : json_quoted(text);
}

}  // namespace

TaggedCalls::TaggedCalls(CallContext context, const TaggedCallsForm& form)
    : context_(context),
      form_(form),
      outside_(joined_markers({form.call_open}, form.fillers)),
      name_end_(form.name_ends),
      between_(joined_markers({form.parameter_open}, form.call_closes)),
      parameter_end_({form.parameter_name_end}),
      value_open_({form.value_open}),
      value_end_(form.value_ends) {}

void TaggedCalls::push(char byte) {
    if (state_ != State::outside) raw_ += byte;
    step(byte);
}

void TaggedCalls::step(char byte) {
    switch (state_) {
        case State::outside:
            return outside(byte);
        case State::name:
            return in_name(byte);
        case State::between:
            return between(byte);
        case State::parameter:
            return in_parameter(byte);
        case State::before_value:
            return before_value(byte);
        case State::value:
            return in_value(byte);
    }
}

void TaggedCalls::outside(char byte) {
    std::string text;
    const auto found = outside_.push(byte, text);
    context_.sink.content(text);
    if (!found || *found > 0) return;
    state_ = State::name;
    raw_ = form_.call_open;
    name_.clear();
    begun_ = false;
    first_ = true;
}

void TaggedCalls::in_name(char byte) {
    const auto found = name_end_.push(byte, name_);
    if (name_.size() > kMaxTagBytes) return give_up();
    if (!found) return;
    name_ = plain_name(name_);
    const bool plain = !name_.empty() && name_.find_first_of(" \n\r\t<>{}[]\"") == name_.npos;
    if (!plain) return give_up();
    state_ = State::between;
    replay(name_end_.marker(*found));
}

// The end of a name may begin a parameter or end the call.
void TaggedCalls::replay(std::string_view text) {
    const bool is_tag = text == form_.parameter_open ||
                        std::find(form_.call_closes.begin(), form_.call_closes.end(), text) !=
                            form_.call_closes.end();
    if (!is_tag) return;
    for (const char byte : text) between(byte);
}

void TaggedCalls::between(char byte) {
    std::string text;
    const auto found = between_.push(byte, text);
    if (!blank_only(text)) return give_up();
    if (!found) return;
    if (!begun_) {
        begun_ = true;
        context_.sink.begin_call(name_);
    }
    if (*found > 0) return end_call();
    state_ = State::parameter;
    parameter_.clear();
}

void TaggedCalls::in_parameter(char byte) {
    const auto found = parameter_end_.push(byte, parameter_);
    if (parameter_.size() > kMaxTagBytes) return give_up();
    if (!found) return;
    if (!form_.value_open.empty()) {
        state_ = State::before_value;
    } else if (!begin_parameter()) {
        give_up();
    }
}

void TaggedCalls::before_value(char byte) {
    std::string text;
    const auto found = value_open_.push(byte, text);
    if (!blank_only(text)) return give_up();
    if (found && !begin_parameter()) give_up();
}

bool TaggedCalls::begin_parameter() {
    const std::string name(plain_name(parameter_));
    if (name.empty()) return false;
    types_ = context_.tools.types(name_, name);
    if (parameter_.find("string=\"true\"") != parameter_.npos) types_ = json_type::kString;
    if (parameter_.find("string=\"false\"") != parameter_.npos) types_ = 0;
    streams_ = types_ == json_type::kString;
    context_.sink.arguments((first_ ? "{" : ", ") + json_quoted(name) + ": ");
    if (streams_) context_.sink.arguments("\"");
    first_ = false;
    opened_ = false;
    value_.clear();
    state_ = State::value;
    return true;
}

void TaggedCalls::in_value(char byte) {
    if (!opened_) {
        opened_ = true;
        if (form_.strips_line_ends && byte == '\n') return;
    }
    std::string text;
    const auto found = value_end_.push(byte, text);
    pass_value(text);
    if (!found) return;
    end_value();
    state_ = State::between;
    // Where the end tag is missing, the next tag ends the value.
    std::string_view marker = value_end_.marker(*found);
    if (marker.starts_with('\n')) marker.remove_prefix(1);
    replay(marker);
}

void TaggedCalls::pass_value(std::string_view text) {
    if (!streams_) {
        value_ += text;
        return;
    }
    std::string escaped;
    append_json_escaped(escaped, text);
    context_.sink.arguments(escaped);
}

void TaggedCalls::end_value() {
    context_.sink.arguments(streams_ ? "\"" : value_as_json(value_, types_));
}

void TaggedCalls::end_call() {
    context_.sink.arguments(first_ ? "{}" : "}");
    context_.sink.end_call();
    state_ = State::outside;
}

void TaggedCalls::give_up() {
    state_ = State::outside;
    for (MarkerSearch* search :
         {&name_end_, &between_, &parameter_end_, &value_open_, &value_end_}) {
        search->take();
    }
    // The last byte may begin a marker.
    const char last = raw_.back();
    raw_.pop_back();
    context_.sink.give_up(raw_);
    outside(last);
}

void TaggedCalls::finish(bool cut) {
    if (state_ == State::outside) {
        context_.sink.content(outside_.take());
    } else {
        end_unfinished(context_.sink, raw_, cut);
    }
}

}  // namespace helix::text
