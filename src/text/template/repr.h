#pragma once

#include <string>

#include "text/template/value.h"

namespace helix::text::jinja {

// What {{ value }} prints, which is Python's str().
Result<std::string> to_text(const Value& value, Budget& budget);
// Python's repr(), with text in quotes.
Result<std::string> to_repr(const Value& value, Budget& budget);
// The shortest digits that read back as this number, as Python's repr(float) writes them.
std::string float_repr(double number);
std::string quoted_text(std::string_view text);

}  // namespace helix::text::jinja
