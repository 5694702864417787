#include "text/tool_calls/json_reader.h"

#include <fmt/format.h>

#include <cctype>
#include <nlohmann/json.hpp>

namespace helix::text {

std::string_view without_blanks(std::string_view text) {
    while (!text.empty() && is_json_blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_json_blank(text.back())) text.remove_suffix(1);
    return text;
}

void append_json_escaped(std::string& out, std::string_view text) {
    for (const char c : text) {
        switch (c) {
            case '"':
                out += "\\\"";
                break;
            case '\\':
                out += "\\\\";
                break;
            case '\n':
                out += "\\n";
                break;
            case '\r':
                out += "\\r";
                break;
            case '\t':
                out += "\\t";
                break;
            default:
                if (static_cast<unsigned char>(c) < 0x20) {
                    out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
                } else {
                    out += c;
                }
        }
    }
}

std::string json_quoted(std::string_view text) {
    std::string out = "\"";
    append_json_escaped(out, text);
    out += '"';
    return out;
}

std::string json_unescaped(std::string_view inside) {
    if (inside.find('\\') == std::string_view::npos) return std::string(inside);
    const std::string quoted = '"' + std::string(inside) + '"';
    const auto value = nlohmann::json::parse(quoted, nullptr, false);
    return value.is_string() ? value.get<std::string>() : std::string(inside);
}

void JsonReader::push(char byte, std::string& out) {
    const bool inside = at_ == At::name || at_ == At::string;
    if (inside && escape_ == 0 && static_cast<unsigned char>(byte) < 0x20) {
        return append_json_escaped(out, {&byte, 1});
    }
    out += byte;
    if (inside) return in_string(byte);
    if (at_ == At::number) return in_number(byte);
    if (at_ == At::word) return in_word(byte);
    if (is_json_blank(byte)) return;
    switch (at_) {
        case At::item_or_end:
            if (byte == ']') return close('[');
            return begin_value(byte);
        case At::value:
            return begin_value(byte);
        case At::name_or_end:
            if (byte == '}') return close('{');
            return begin_name(byte);
        case At::name_begin:
            return begin_name(byte);
        case At::colon:
            at_ = byte == ':' ? At::value : At::bad;
            return;
        case At::after_value:
            return after(byte);
        default:
            at_ = At::bad;
    }
}

void JsonReader::begin_value(char byte) {
    const bool number = byte == '-' || (byte >= '0' && byte <= '9');
    if (byte == '{') return open('{', At::name_or_end);
    if (byte == '[') return open('[', At::item_or_end);
    if (byte == '"') {
        at_ = At::string;
    } else if (number && !open_.empty()) {
        at_ = At::number;
        scalar_ = byte;
    } else if (byte == 't' || byte == 'f' || byte == 'n') {
        at_ = At::word;
        scalar_ = byte == 't' ? "rue" : byte == 'f' ? "alse" : "ull";
    } else {
        at_ = At::bad;
    }
}

void JsonReader::begin_name(char byte) {
    at_ = byte == '"' ? At::name : At::bad;
}

void JsonReader::in_string(char byte) {
    if (escape_ == 1) {
        escape_ = byte == 'u' ? 5 : 0;
        if (byte != 'u' && std::string_view("\"\\/bfnrt").find(byte) == std::string_view::npos) {
            at_ = At::bad;
        }
    } else if (escape_ > 1) {
        escape_ = escape_ == 2 ? 0 : static_cast<std::uint8_t>(escape_ - 1);
        if (std::isxdigit(static_cast<unsigned char>(byte)) == 0) at_ = At::bad;
    } else if (byte == '\\') {
        escape_ = 1;
    } else if (byte == '"') {
        if (at_ == At::name) {
            at_ = At::colon;
        } else {
            value_ends();
        }
    }
}

void JsonReader::in_number(char byte) {
    const bool more = (byte >= '0' && byte <= '9') || byte == '.' || byte == 'e' || byte == 'E' ||
                      byte == '+' || byte == '-';
    if (more) {
        scalar_ += byte;
        return;
    }
    if (!nlohmann::json::accept(scalar_)) {
        at_ = At::bad;
        return;
    }
    value_ends();
    if (!is_json_blank(byte)) after(byte);
}

void JsonReader::in_word(char byte) {
    if (scalar_.front() != byte) {
        at_ = At::bad;
        return;
    }
    scalar_.erase(0, 1);
    if (scalar_.empty()) value_ends();
}

void JsonReader::after(char byte) {
    if (byte == ',') {
        at_ = open_.back() == '{' ? At::name_begin : At::value;
    } else if (byte == '}') {
        close('{');
    } else if (byte == ']') {
        close('[');
    } else {
        at_ = At::bad;
    }
}

void JsonReader::open(char bracket, At inside) {
    if (open_.size() == kMaxDepth) {
        at_ = At::bad;
        return;
    }
    open_.push_back(bracket);
    at_ = inside;
}

void JsonReader::close(char bracket) {
    if (open_.empty() || open_.back() != bracket) {
        at_ = At::bad;
        return;
    }
    open_.pop_back();
    value_ends();
}

}  // namespace helix::text
