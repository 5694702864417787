#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/grammar/grammar.h"

namespace helix::text::grammar {

// Any text up to the first mark, which is its end, and before which none of never comes.
Expr text_up_to(std::string_view mark, std::span<const std::string> never);

// Any text in which none of the marks comes, or none comes first.
Expr text_without(std::span<const std::string> marks);
Expr text_not_beginning_with(std::span<const std::string> marks);

}  // namespace helix::text::grammar
