#pragma once

#include <string>
#include <string_view>

// Text from outside on its way to a terminal, a log or a page.

namespace helix::base {

// The text with everything written out that could do more than be read: control characters (line
// ends, ESC and the C1 range included), bytes that are no UTF-8, and marks that change the
// direction of writing, as \xNN by byte, \n, \r or \t. Other text, UTF-8 included, stays as it is.
std::string escaped(std::string_view text);
// The same, but line ends stay. For texts of several lines.
std::string escaped_lines(std::string_view text);

// text as content or as a quoted attribute of HTML, SVG and XML: & < > and both quotes become
// entities (numeric ones for the quotes, as Jinja writes them). Everything else stays.
std::string escaped_markup(std::string_view text);

}  // namespace helix::base
