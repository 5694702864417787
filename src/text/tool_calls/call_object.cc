#include "text/tool_calls/call_object.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace helix::text {

using JsonAt = JsonReader::At;

CallProgress CallObject::push(char byte) {
    std::string text;
    const JsonAt before = reader_.at();
    const bool inside = reader_.depth() > 0;
    reader_.push(byte, text);
    if (reader_.at() == JsonAt::bad) {
        // The call itself is whole; what is wrong comes after it.
        return ended_ ? CallProgress::done_before : CallProgress::bad;
    }
    return step(byte, text, inside ? before : JsonAt::done);
}

// before: where the byte was found, done for the first one.
CallProgress CallObject::step(char byte, const std::string& text, JsonAt before) {
    const bool top = reader_.depth() == 1;
    if (!in_value_) {
        if (reader_.at() == JsonAt::done) return object_ends();
        if (before == JsonAt::name && reader_.at() == JsonAt::name && top) key_ += text;
        if (before == JsonAt::value && reader_.at() != JsonAt::value && !begin_value(byte)) {
            return CallProgress::bad;
        }
        if (!in_value_) return CallProgress::more;
    }
    // The byte behind a number that is the value itself is not part of it.
    const bool scalar = before == JsonAt::number && first_ != '{' && first_ != '[';
    const bool over = (top && reader_.at() != JsonAt::string && reader_.at() != JsonAt::number &&
                       reader_.at() != JsonAt::word) ||
                      reader_.at() == JsonAt::done;
    if (!over || !scalar) pass(text);
    if (!over) return CallProgress::more;
    in_value_ = false;
    if (!value_ends()) return CallProgress::bad;
    key_.clear();
    return reader_.at() == JsonAt::done ? object_ends() : CallProgress::more;
}

// False if no call has such a member.
bool CallObject::begin_value(char byte) {
    in_value_ = true;
    first_ = byte;
    value_.clear();
    const std::string key = json_unescaped(key_);
    if (form_.name_is_key) {
        member_ = name_ ? Member::other : Member::arguments;
        if (!name_) name_ = key;
    } else if (key == "name" || key == "tool_name") {
        member_ = name_ ? Member::other : Member::name;
    } else if (key == "arguments" || key == "parameters") {
        member_ = begun_ || held_ ? Member::other : Member::arguments;
    } else {
        member_ = Member::other;
        return !form_.known_only || key == "type" || key == "id";
    }
    return true;
}

// Keeps or passes on the bytes of a value.
void CallObject::pass(const std::string& text) {
    if (member_ == Member::other) return;
    if (member_ == Member::arguments && first_ == '{' && name_) {
        if (!begun_ && !begin_call()) member_ = Member::other;
        if (begun_) return context_.sink.arguments(text);
    }
    value_ += text;
}

bool CallObject::begin_call() {
    if (name_->empty() || (form_.known_only && !context_.tools.has(*name_))) return false;
    begun_ = true;
    context_.sink.begin_call(*name_);
    return true;
}

bool CallObject::value_ends() {
    if (member_ == Member::name) {
        if (first_ != '"' || value_.size() < 2) return false;
        name_ = json_unescaped(std::string_view(value_).substr(1, value_.size() - 2));
        return !name_->empty() && (!form_.known_only || context_.tools.has(*name_));
    }
    return member_ != Member::arguments || arguments_end();
}

bool CallObject::arguments_end() {
    if (begun_) {
        ended_ = true;
        context_.sink.end_call();
        return true;
    }
    if (first_ == '"') {
        const std::string inside =
            json_unescaped(std::string_view(value_).substr(1, value_.size() - 2));
        value_ = inside.empty() ? "{}" : inside;
        const auto object = nlohmann::json::parse(value_, nullptr, false);
        if (!object.is_object()) return false;
    } else if (value_ == "null") {
        value_ = "{}";
    } else if (first_ != '{') {
        return false;
    }
    held_ = std::move(value_);
    return true;
}

CallProgress CallObject::object_ends() {
    if (ended_) return CallProgress::done;
    if (!name_ || !begin_call()) return CallProgress::bad;
    context_.sink.arguments(held_.value_or("{}"));
    context_.sink.end_call();
    ended_ = true;
    return CallProgress::done;
}

CallProgress CallList::push(char byte) {
    raw_ += byte;
    return step(byte);
}

CallProgress CallList::step(char byte) {
    if (at_ == At::object) return in_object(byte);
    if (is_json_blank(byte)) return CallProgress::more;
    if (at_ == At::begin && byte == '[') {
        list_ = true;
        at_ = At::list_begin;
        return CallProgress::more;
    }
    if (at_ == At::after_item) {
        if (byte == ']') return CallProgress::done;
        if (byte != ',') return CallProgress::done_before;
        at_ = At::item;
        return CallProgress::more;
    }
    if (at_ == At::item && byte == ']') return CallProgress::done;
    if (byte != '{') return CallProgress::bad;
    object_.emplace(context_, form_);
    at_ = At::object;
    return in_object(byte);
}

CallProgress CallList::in_object(char byte) {
    const CallProgress progress = object_->push(byte);
    if (object_->ended()) raw_.clear();
    if (progress != CallProgress::done && progress != CallProgress::done_before) return progress;
    if (!list_) return progress;
    at_ = At::after_item;
    return progress == CallProgress::done ? CallProgress::more : push(byte);
}

}  // namespace helix::text
