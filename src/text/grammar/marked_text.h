#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/grammar/grammar.h"

namespace helix::text::grammar {

// Any text up to the first of the marks, which is its end, and before which none of never comes.
Expr text_up_to(std::span<const std::string> marks, std::span<const std::string> never);

// Any text in which none of the marks comes, and that begins with none of the first ones.
Expr text_without(std::span<const std::string> marks, std::span<const std::string> first = {});

}  // namespace helix::text::grammar
