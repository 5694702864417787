#include "base/escape.h"

#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

namespace helix::base {
namespace {

struct Piece {
    std::size_t bytes = 1;
    bool plain = false;
};

// Whether a character only changes how others are shown.
bool is_hidden(std::uint32_t c) {
    return (c >= 0x80 && c < 0xA0) || (c >= 0x200B && c <= 0x200F) ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF;
}

// The character at the beginning of text.
Piece first_piece(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char lead = byte(0);
    if (lead < 0x80) return {1, lead >= 0x20 && lead != 0x7F};
    const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
    std::uint32_t code = lead & (0xFFU >> (bytes + 1));
    for (std::size_t i = 1; i < bytes; ++i) {
        if ((byte(i) & 0xC0U) != 0x80) return {};
        code = code << 6U | (byte(i) & 0x3FU);
    }
    const bool shortest = bytes == 2 || (bytes == 3 ? code >= 0x800 : code >= 0x10000);
    const bool good = shortest && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
    return good ? Piece{bytes, !is_hidden(code)} : Piece{};
}

std::string escape(std::string_view text, bool keep_line_ends) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const Piece piece = first_piece(text);
        if (piece.plain || (keep_line_ends && text[0] == '\n')) {
            out += text.substr(0, piece.bytes);
        } else if (text[0] == '\n') {
            out += "\\n";
        } else if (text[0] == '\r') {
            out += "\\r";
        } else if (text[0] == '\t') {
            out += "\\t";
        } else {
            for (const char c : text.substr(0, piece.bytes)) {
                out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
            }
        }
        text.remove_prefix(piece.bytes);
    }
    return out;
}

}  // namespace

std::string escaped(std::string_view text) {
    return escape(text, false);
}

std::string escaped_lines(std::string_view text) {
    return escape(text, true);
}

std::string escaped_markup(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (const char c : text) {
        switch (c) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '"':
                out += "&#34;";
                break;
            case '\'':
                out += "&#39;";
                break;
            default:
                out += c;
        }
    }
    return out;
}

}  // namespace helix::base
