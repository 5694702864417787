#include "text/template/unicode.h"

#include <utf8proc.h>

#include <set>

namespace helix::text::jinja {

namespace {

utf8proc_category_t category(std::int32_t code_point) {
    return utf8proc_category(code_point);
}

void append_upper(std::string& out, std::int32_t code_point) {
    // The letters whose upper case is more than one letter, as far as texts have them.
    switch (code_point) {
        case 0xDF:
            out += "SS";
            return;
        case 0x149:
            out += "\xCA\xBCN";
            return;
        case 0xFB00:
            out += "FF";
            return;
        case 0xFB01:
            out += "FI";
            return;
        case 0xFB02:
            out += "FL";
            return;
        case 0xFB03:
            out += "FFI";
            return;
        case 0xFB04:
            out += "FFL";
            return;
        case 0xFB05:
        case 0xFB06:
            out += "ST";
            return;
        default:
            append_utf8(out, utf8proc_toupper(code_point));
    }
}

void append_title(std::string& out, std::int32_t code_point) {
    if (code_point == 0xDF) {
        out += "Ss";
    } else {
        append_utf8(out, utf8proc_totitle(code_point));
    }
}

bool cased_letter_around(std::string_view text, std::size_t at, std::size_t bytes) {
    if (at == 0) return false;
    std::size_t previous = at - 1;
    while (previous > 0 && (static_cast<unsigned char>(text[previous]) & 0xC0) == 0x80) --previous;
    std::size_t size = 0;
    if (!is_alpha(code_point_at(text, previous, size))) return false;
    if (at + bytes >= text.size()) return true;
    return !is_alpha(code_point_at(text, at + bytes, size));
}

void append_lower(std::string& out, std::int32_t code_point, std::string_view text,
                  std::size_t at) {
    if (code_point == 0x3A3 && cased_letter_around(text, at, 2)) {
        append_utf8(out, 0x3C2);  // sigma at the end of a word
    } else if (code_point == 0x130) {
        out += "i\xCC\x87";
    } else {
        append_utf8(out, utf8proc_tolower(code_point));
    }
}

// Calls change(out, code point, byte offset) for each code point.
template <typename Change>
std::string map_text(std::string_view text, Change change) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        std::size_t bytes = 0;
        const std::int32_t code_point = code_point_at(text, at, bytes);
        if (code_point < 0) {
            out.append(text.substr(at, bytes));
        } else {
            change(out, code_point, at);
        }
        at += bytes;
    }
    return out;
}

}  // namespace

std::int32_t code_point_at(std::string_view text, std::size_t at, std::size_t& bytes) {
    utf8proc_int32_t code_point = -1;
    const auto* data = reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at);
    const auto size =
        utf8proc_iterate(data, static_cast<utf8proc_ssize_t>(text.size() - at), &code_point);
    bytes = size > 0 ? static_cast<std::size_t>(size) : 1;
    return size > 0 ? code_point : -1;
}

std::size_t code_point_bytes(std::string_view text, std::size_t at) {
    if (static_cast<unsigned char>(text[at]) < 0x80) return 1;
    std::size_t bytes = 0;
    code_point_at(text, at, bytes);
    return bytes;
}

std::size_t count_code_points(std::string_view text) {
    std::size_t count = 0;
    for (std::size_t at = 0; at < text.size(); ++count) at += code_point_bytes(text, at);
    return count;
}

std::size_t byte_offset(std::string_view text, std::size_t index) {
    std::size_t at = 0;
    for (; index > 0 && at < text.size(); --index) at += code_point_bytes(text, at);
    return at;
}

void append_utf8(std::string& out, std::int32_t code_point) {
    utf8proc_uint8_t buffer[4];
    const auto size = utf8proc_encode_char(code_point, buffer);
    out.append(reinterpret_cast<const char*>(buffer), static_cast<std::size_t>(size));
}

bool is_valid_utf8(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
        std::size_t bytes = 0;
        if (code_point_at(text, at, bytes) < 0) return false;
        at += bytes;
    }
    return true;
}

bool is_space(std::int32_t c) {
    if (c < 0) return false;
    if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20);
    return c == 0x85 || category(c) == UTF8PROC_CATEGORY_ZS || c == 0x2028 || c == 0x2029;
}

bool is_line_break(std::int32_t c) {
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

bool is_printable(std::int32_t c) {
    if (c == ' ') return true;
    if (c < 0) return false;
    switch (category(c)) {
        case UTF8PROC_CATEGORY_CC:
        case UTF8PROC_CATEGORY_CF:
        case UTF8PROC_CATEGORY_CS:
        case UTF8PROC_CATEGORY_CO:
        case UTF8PROC_CATEGORY_CN:
        case UTF8PROC_CATEGORY_ZL:
        case UTF8PROC_CATEGORY_ZP:
        case UTF8PROC_CATEGORY_ZS:
            return false;
        default:
            return true;
    }
}

bool is_upper(std::int32_t c) {
    return c >= 0 && category(c) == UTF8PROC_CATEGORY_LU;
}
bool is_lower(std::int32_t c) {
    return c >= 0 && (category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA);
}
bool is_cased(std::int32_t c) {
    return is_upper(c) || is_lower(c) || (c >= 0 && category(c) == UTF8PROC_CATEGORY_LT);
}
bool is_alpha(std::int32_t c) {
    if (c < 0) return false;
    const auto kind = category(c);
    return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL ||
           kind == UTF8PROC_CATEGORY_LT || kind == UTF8PROC_CATEGORY_LM ||
           kind == UTF8PROC_CATEGORY_LO;
}
bool is_decimal(std::int32_t c) {
    return c >= 0 && category(c) == UTF8PROC_CATEGORY_ND;
}
bool is_numeric(std::int32_t c) {
    if (c < 0) return false;
    const auto kind = category(c);
    return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL ||
           kind == UTF8PROC_CATEGORY_NO;
}
bool is_word(std::int32_t c) {
    return c == '_' || is_alpha(c) || is_numeric(c);
}

std::string to_upper(std::string_view text) {
    return map_text(text,
                    [](std::string& out, std::int32_t c, std::size_t) { append_upper(out, c); });
}

std::string to_lower(std::string_view text) {
    return map_text(text, [text](std::string& out, std::int32_t c, std::size_t at) {
        append_lower(out, c, text, at);
    });
}

std::string swap_case(std::string_view text) {
    return map_text(text, [text](std::string& out, std::int32_t c, std::size_t at) {
        if (is_upper(c)) {
            append_lower(out, c, text, at);
        } else if (is_lower(c)) {
            append_upper(out, c);
        } else {
            append_utf8(out, c);
        }
    });
}

std::string capitalize(std::string_view text) {
    return map_text(text, [text](std::string& out, std::int32_t c, std::size_t at) {
        if (at == 0) {
            append_title(out, c);
        } else {
            append_lower(out, c, text, at);
        }
    });
}

std::string title_case(std::string_view text) {
    bool after_cased = false;
    return map_text(text, [text, &after_cased](std::string& out, std::int32_t c, std::size_t at) {
        if (after_cased) {
            append_lower(out, c, text, at);
        } else {
            append_title(out, c);
        }
        after_cased = is_cased(c);
    });
}

std::string_view strip(std::string_view text, Side side, const std::string_view* characters) {
    std::set<std::int32_t> wanted;
    if (characters != nullptr) {
        for (std::size_t at = 0; at < characters->size();) {
            std::size_t bytes = 0;
            wanted.insert(code_point_at(*characters, at, bytes));
            at += bytes;
        }
    }
    const auto goes = [&](std::int32_t c) {
        return characters == nullptr ? is_space(c) : wanted.contains(c);
    };
    std::size_t begin = 0;
    std::size_t bytes = 0;
    while (side != Side::right && begin < text.size() && goes(code_point_at(text, begin, bytes)))
        begin += bytes;
    std::size_t end = text.size();
    while (side != Side::left && end > begin) {
        std::size_t last = end - 1;
        while (last > begin && (static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
        if (!goes(code_point_at(text.substr(0, end), last, bytes))) break;
        end = last;
    }
    return text.substr(begin, end - begin);
}

}  // namespace helix::text::jinja
