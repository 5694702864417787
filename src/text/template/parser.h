#pragma once

#include <string_view>

#include "text/template/ast.h"

namespace helix::text::jinja {

// Errors name the line, what was found and what was expected.
Result<Body> parse_template(std::string_view source);

}  // namespace helix::text::jinja
