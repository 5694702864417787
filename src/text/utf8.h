#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace helix::text {

// U+FFFD as UTF-8, which stands for bytes that are no text.
inline constexpr std::string_view kReplacement = "\xef\xbf\xbd";

struct Utf8Prefix {
    enum class Kind {
        character,   // a whole, valid character
        incomplete,  // could become a character if more bytes came
        invalid,     // can never become one
    };
    Kind kind;
    // Of an invalid one: the longest start of a character that these bytes form, at least 1
    // (Unicode 3.9, "maximal subparts"), which one U+FFFD is to replace.
    std::size_t length;
};

// What text begins with; it must not be empty. Overlong forms, surrogates and values over U+10FFFF
// are invalid.
Utf8Prefix utf8_prefix(std::string_view text);

// Of one whole, valid character.
char32_t code_point_of(std::string_view character);

void append_utf8(std::string& out, char32_t code_point);

}  // namespace helix::text
