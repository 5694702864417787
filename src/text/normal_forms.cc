#include "text/normal_forms.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "text/utf8.h"

namespace helix::text {
namespace {

// The first byte of U+0300, the first mark. What consists of smaller characters is in form C.
constexpr unsigned char kFirstByteOfMarks = 0xcc;

int mark_class_of(char32_t c) {
    return utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
}

// Puts characters in form D together.
void append_composed(std::u32string_view text, std::string& out) {
    const std::u32string apart = decomposed(text);
    std::vector<utf8proc_int32_t> characters(apart.begin(), apart.end());
    const utf8proc_ssize_t length = utf8proc_normalize_utf32(
        characters.data(), std::ssize(characters),
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    CHECK(length >= 0 && length <= std::ssize(characters));
    characters.resize(static_cast<std::size_t>(length));
    for (const utf8proc_int32_t c : characters) append_utf8(out, static_cast<char32_t>(c));
}

}  // namespace

std::u32string decomposed(std::u32string_view text) {
    std::u32string out;
    out.reserve(text.size());
    for (const char32_t c : text) {
        std::array<utf8proc_int32_t, 8> parts{};  // the longest have four
        const utf8proc_ssize_t n =
            utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(),
                                    std::ssize(parts), UTF8PROC_DECOMPOSE, nullptr);
        CHECK(n >= 0 && n <= std::ssize(parts));
        for (utf8proc_ssize_t i = 0; i < n; ++i)
            out.push_back(static_cast<char32_t>(parts[static_cast<std::size_t>(i)]));
    }
    // Marks that follow one character are in the order of their classes.
    const auto is_mark = [](char32_t c) { return mark_class_of(c) != 0; };
    for (auto first = out.begin(); first != out.end();) {
        first = std::find_if(first, out.end(), is_mark);
        const auto last = std::find_if_not(first, out.end(), is_mark);
        std::stable_sort(first, last, [](char32_t a, char32_t b) {
            return mark_class_of(a) < mark_class_of(b);
        });
        first = last;
    }
    return out;
}

std::string composed(std::string_view text) {
    const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
        return static_cast<unsigned char>(c) < kFirstByteOfMarks;
    });
    if (plain) return std::string(text);
    std::string out;
    out.reserve(text.size());
    std::u32string run;
    while (!text.empty()) {
        const Utf8Prefix prefix = utf8_prefix(text);
        if (prefix.kind == Utf8Prefix::Kind::character) {
            run.push_back(code_point_of(text.substr(0, prefix.length)));
        } else {
            append_composed(run, out);
            run.clear();
            out += text.substr(0, prefix.length);
        }
        text.remove_prefix(prefix.length);
    }
    append_composed(run, out);
    return out;
}

}  // namespace helix::text
