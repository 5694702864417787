#pragma once

#include <string_view>

#include "base/result.h"
#include "text/grammar/grammar.h"

namespace helix::text::grammar {

// Reads a regular expression as JSON schema's "pattern" has it (ECMA 262), as far as it describes a
// regular language of whole strings: characters, . \d \w \s \D \W \S, classes, groups (also (?:…)),
// |, * + ? {m,n} (lazy ones match the same), ^ and $ at the ends of the pattern or of its outermost
// alternatives. A side without an anchor may have anything. What \w and \d mean is ASCII.
//
// any_character stands for a character where a side has no anchor. Expressions of the result match
// the characters of the string itself, not its JSON form, except any_character, which is taken as
// it is.
//
// Error invalid says the column, what was expected and what was found. Look-around,
// back-references, named groups, word boundaries and flags are named as not supported.
base::Result<Expr> parse_pattern(std::string_view text, const Expr& any_character);

}  // namespace helix::text::grammar
