#include "api/json_text.h"

#include <array>
#include <charconv>
#include <cmath>

#include "text/utf8.h"

namespace helix::api {
namespace {

void append_control(std::string& out, char c) {
    switch (c) {
        case '\n':
            out += "\\n";
            return;
        case '\r':
            out += "\\r";
            return;
        case '\t':
            out += "\\t";
            return;
        case '\b':
            out += "\\b";
            return;
        case '\f':
            out += "\\f";
            return;
        default:
            break;
    }
    constexpr std::string_view kHex = "0123456789abcdef";
    const auto value = static_cast<unsigned char>(c);
    out += "\\u00";
    out += kHex[value >> 4U];
    out += kHex[value & 15U];
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
    out += '"';
    std::size_t done = 0;  // up to here text is in out
    std::size_t i = 0;
    while (i < text.size()) {
        const char c = text[i];
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\') {
            ++i;
            continue;
        }
        text::Utf8Prefix prefix{text::Utf8Prefix::Kind::invalid, 1};
        if (byte >= 0x80) prefix = text::utf8_prefix(text.substr(i));
        if (prefix.kind == text::Utf8Prefix::Kind::character) {
            i += prefix.length;
            continue;
        }
        out += text.substr(done, i - done);
        if (byte >= 0x80) {
            out += text::kReplacement;
            i += prefix.length;
        } else {
            if (c == '"' || c == '\\') {
                out += '\\';
                out += c;
            } else {
                append_control(out, c);
            }
            ++i;
        }
        done = i;
    }
    out += text.substr(done);
    out += '"';
}

void append_json_number(std::string& out, std::int64_t value) {
    std::array<char, 24> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
    out.append(text.data(), end.ptr);
}

void append_json_number(std::string& out, float value) {
    if (!std::isfinite(value)) value = value > 0 ? 9999.0F : -9999.0F;
    std::array<char, 48> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
    out.append(text.data(), end.ptr);
}

}  // namespace helix::api
