#pragma once

#include <string_view>
#include <vector>

namespace helix::base {

// The parts of a list with marks between them: "a,b" is "a", "b". There is one more than marks, so
// that nothing between two marks, or at an end, is an empty part.
std::vector<std::string_view> split(std::string_view text, char mark);

}  // namespace helix::base
