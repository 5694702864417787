#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace helix::text::grammar {

// Grammars in the notation of gbnf_parser.h for what clients ask for in other words.

// The whole text matches a pattern (pattern_parser.h), whether or not it has anchors at its ends.
// Error invalid says what is wrong with the pattern, or that it matches nothing or is too costly.
base::Result<std::string> gbnf_of_pattern(std::string_view pattern);

// The whole text is one of these, of which there is at least one. They are UTF-8.
std::string gbnf_of_choices(const std::vector<std::string>& choices);

}  // namespace helix::text::grammar
