#pragma once

#include <string>
#include <string_view>

// Makes text from outside safe to show on a terminal or in a log.

namespace helix::base {

// The text with everything written out that could do more than be read: control characters (line
// ends, ESC and the C1 range included), bytes that are no UTF-8, and marks that change the
// direction of writing, as \xNN by byte, \n, \r or \t. Other text, UTF-8 included, stays as it is.
std::string escaped(std::string_view text);
// The same, but line ends stay. For texts of several lines.
std::string escaped_lines(std::string_view text);

}  // namespace helix::base
