#include "text/template/string_ops.h"

#include <algorithm>

#include "text/template/text_builder.h"
#include "text/template/unicode.h"

namespace helix::text::jinja {

namespace {

bool room_left(std::int64_t limit, std::size_t parts) {
    return limit < 0 || parts < static_cast<std::size_t>(limit);
}

std::size_t previous_code_point(std::string_view text, std::size_t at) {
    --at;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    return at;
}

bool space_at(std::string_view text, std::size_t at, std::size_t& bytes) {
    return is_space(code_point_at(text, at, bytes));
}

std::vector<std::string_view> split_on_space_from_right(std::string_view text, std::int64_t limit) {
    std::vector<std::string_view> parts;
    std::size_t end = text.size();
    while (true) {
        const std::string_view rest = strip(text.substr(0, end), Side::right, nullptr);
        if (rest.empty()) break;
        if (!room_left(limit, parts.size())) {
            parts.push_back(rest);
            break;
        }
        std::size_t begin = rest.size();
        std::size_t bytes = 0;
        while (begin > 0 && !space_at(text, previous_code_point(text, begin), bytes)) {
            begin = previous_code_point(text, begin);
        }
        parts.push_back(rest.substr(begin));
        end = begin;
    }
    std::reverse(parts.begin(), parts.end());
    return parts;
}

}  // namespace

std::vector<std::string_view> split_on(std::string_view text, std::string_view separator,
                                       std::int64_t limit, bool from_right) {
    std::vector<std::string_view> parts;
    std::size_t begin = 0;
    std::size_t end = text.size();
    while (room_left(limit, parts.size())) {
        const std::size_t at =
            from_right ? text.substr(0, end).rfind(separator) : text.find(separator, begin);
        if (at == std::string_view::npos) break;
        if (from_right) {
            parts.push_back(text.substr(at + separator.size(), end - at - separator.size()));
            end = at;
        } else {
            parts.push_back(text.substr(begin, at - begin));
            begin = at + separator.size();
        }
    }
    parts.push_back(text.substr(begin, end - begin));
    if (from_right) std::reverse(parts.begin(), parts.end());
    return parts;
}

std::vector<std::string_view> split_on_space(std::string_view text, std::int64_t limit,
                                             bool from_right) {
    if (from_right) return split_on_space_from_right(text, limit);
    std::vector<std::string_view> parts;
    std::size_t bytes = 0;
    for (std::size_t at = 0; at < text.size();) {
        if (space_at(text, at, bytes)) {
            at += bytes;
            continue;
        }
        if (!room_left(limit, parts.size())) {
            parts.push_back(text.substr(at));
            break;
        }
        std::size_t end = at;
        while (end < text.size() && !space_at(text, end, bytes)) end += bytes;
        parts.push_back(text.substr(at, end - at));
        at = end;
    }
    return parts;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
    std::vector<std::string_view> lines;
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.size();) {
        std::size_t bytes = 0;
        const std::int32_t c = code_point_at(text, at, bytes);
        if (!is_line_break(c)) {
            at += bytes;
            continue;
        }
        const bool pair = c == '\r' && at + 1 < text.size() && text[at + 1] == '\n';
        const std::size_t next = at + bytes + (pair ? 1 : 0);
        lines.push_back(text.substr(begin, (keep_ends ? next : at) - begin));
        begin = at = next;
    }
    if (begin < text.size()) lines.push_back(text.substr(begin));
    return lines;
}

base::Result<std::string> replace_text(std::string_view text, std::string_view from,
                                       std::string_view to, std::int64_t count, Budget& budget) {
    TextBuilder out(budget);
    std::size_t at = 0;
    for (std::int64_t done = 0; count < 0 || done < count; ++done) {
        TRY_VOID(budget.charge(1));
        if (from.empty()) {
            // Inserts the text before each character and at the end.
            TRY_VOID(out.append(to));
            if (at >= text.size()) return out.take();
            const std::size_t bytes = code_point_bytes(text, at);
            TRY_VOID(out.append(text.substr(at, bytes)));
            at += bytes;
            continue;
        }
        const std::size_t found = text.find(from, at);
        if (found == std::string_view::npos) break;
        TRY_VOID(out.append(text.substr(at, found - at)));
        TRY_VOID(out.append(to));
        at = found + from.size();
    }
    TRY_VOID(out.append(text.substr(at)));
    return out.take();
}

std::int64_t count_parts(std::string_view text, std::string_view part) {
    if (part.empty()) return static_cast<std::int64_t>(count_code_points(text)) + 1;
    std::int64_t count = 0;
    for (std::size_t at = text.find(part); at != std::string_view::npos;
         at = text.find(part, at + part.size())) {
        ++count;
    }
    return count;
}

base::Result<std::string> pad(std::string_view text, std::int64_t width, std::string_view fill,
                              std::string_view how, Budget& budget) {
    const auto size = static_cast<std::int64_t>(count_code_points(text));
    const std::int64_t missing = std::max<std::int64_t>(0, width - size);
    std::int64_t left = 0;
    if (how == "rjust") left = missing;
    if (how == "center") left = missing / 2 + (missing & width & 1);
    TextBuilder out(budget);
    TRY_VOID(out.append_repeated(fill, static_cast<std::size_t>(left)));
    TRY_VOID(out.append(text));
    TRY_VOID(out.append_repeated(fill, static_cast<std::size_t>(missing - left)));
    return out.take();
}

bool has_characters(std::string_view text, std::string_view test) {
    if (test == "isascii")
        return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
    bool any = false;
    for (std::size_t at = 0; at < text.size();) {
        std::size_t bytes = 0;
        const std::int32_t c = code_point_at(text, at, bytes);
        at += bytes;
        if (test == "isupper" || test == "islower") {
            if (test == "isupper" ? is_cased(c) && !is_upper(c) : is_cased(c) && !is_lower(c))
                return false;
            any = any || is_cased(c);
            continue;
        }
        const bool fits = test == "isalpha"     ? is_alpha(c)
                          : test == "isspace"   ? is_space(c)
                          : test == "isalnum"   ? is_alpha(c) || is_numeric(c)
                          : test == "isnumeric" ? is_numeric(c)
                                                : is_decimal(c);  // isdigit, isdecimal
        if (!fits) return false;
        any = true;
    }
    return any;
}

}  // namespace helix::text::jinja
