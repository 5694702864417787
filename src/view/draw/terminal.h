#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// Text for terminals, UTF-8: widths are counted in characters, which all take one column.

namespace helix::view {

constexpr std::size_t kTerminalColumns = 100;  // that no line of a picture exceeds

std::size_t text_width(std::string_view text);

// Exactly `columns` wide: filled with spaces, or cut in the middle, as names often differ at their
// ends. Control characters become '?'.
std::string fitted(std::string_view text, std::size_t columns);

// Lines of at most kTerminalColumns, broken at spaces; those after the first are indented by two.
std::string wrapped(std::string_view text);

enum class TextStyle { plain, bold, dim, strip, warning };
// text between the escape sequence of the style and that of plain text.
std::string styled(TextStyle style, std::string_view text);

// A strip of `columns` characters that stands for [0, length).
struct StripScale {
    std::int32_t columns = 0;
    std::int32_t length = 0;
};
// The part of the strip that [begin, end) covers, to half a column, drawn full, the rest as dots.
std::string range_strip(StripScale scale, std::int32_t begin, std::int32_t end, bool colours);

}  // namespace helix::view
