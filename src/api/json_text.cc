#include "api/json_text.h"

#include <array>
#include <charconv>
#include <cmath>

namespace helix::api {
namespace {

// Length of the well-formed UTF-8 sequence at the start of text (Unicode table 3-7), or 0; then
// `wrong` is the length of the maximal wrong piece.
std::size_t utf8_length(std::string_view text, std::size_t& wrong) {
    const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char lead = byte(0);
    std::size_t size = 0;
    unsigned char low = 0x80;
    unsigned char high = 0xBF;
    wrong = 1;
    if (lead < 0x80) return 1;
    if (lead >= 0xC2 && lead <= 0xDF) {
        size = 2;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
        size = 3;
        if (lead == 0xE0) low = 0xA0;
        if (lead == 0xED) high = 0x9F;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
        size = 4;
        if (lead == 0xF0) low = 0x90;
        if (lead == 0xF4) high = 0x8F;
    } else {
        return 0;
    }
    for (std::size_t i = 1; i < size; ++i) {
        if (i >= text.size() || byte(i) < low || byte(i) > high) {
            wrong = i;
            return 0;
        }
        low = 0x80;
        high = 0xBF;
    }
    return size;
}

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
        std::size_t wrong = 0;
        const std::size_t length = byte < 0x80 ? 0 : utf8_length(text.substr(i), wrong);
        if (length > 0) {
            i += length;
            continue;
        }
        out += text.substr(done, i - done);
        if (byte >= 0x80) {
            out += "\xEF\xBF\xBD";
            i += wrong;
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
