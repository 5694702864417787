#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "text/grammar/grammar.h"

namespace helix::text::grammar {

// Reads a regular expression as JSON schema's "pattern" has it (ECMA 262), as far as it describes a
// regular language: characters, . \d \w \s \D \W \S, classes, groups (also (?:...) and named
// ones), |, * + ? {m,n} (lazy ones match the same), ^ and $ anywhere, \b and \B, look-ahead (?=...)
// and (?!...). What \w and \d mean is ASCII. The result matches the pattern where it is found; it
// has assertions, of which with_whole_text() and Dfa make texts.
//
// Error invalid says the column, what was expected and what was found. Look-behind,
// back-references, \p{...} and flags are named as not supported.
base::Result<Expr> parse_pattern(std::string_view text);

// The whole texts in which a pattern is found, where that can be said without assertions: its only
// ones are ^ and $ at the ends of the outermost alternatives. any_character stands for a character
// before and after it, where a side has no anchor. Nothing otherwise.
std::optional<Expr> with_whole_text(const Expr& pattern, const Expr& any_character);

}  // namespace helix::text::grammar
