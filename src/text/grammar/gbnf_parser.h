#pragma once

#include <string_view>

#include "base/result.h"
#include "text/grammar/grammar.h"

namespace helix::text::grammar {

// Reads the grammar notation of llama.cpp: `name ::= alternatives`, with "literals", [classes],
// [^negated classes], . for any character, (groups), * + ? {m} {m,} {m,n}, # comments, and the
// escapes \n \r \t \" \\ \[ \] \- \^ \xHH \uHHHH \UHHHHHHHH (code points). Line ends are spaces: a
// rule ends where the next begins. The text that is wanted is rule "root".
//
// Error invalid says line and column, what was expected and what was found; also for a rule that is
// used but not defined, and when there is no root.
base::Result<Grammar> parse_gbnf(std::string_view text);

}  // namespace helix::text::grammar
