#pragma once

#include "text/template/call.h"
#include "text/template/value.h"

namespace helix::text::jinja {

// text % arguments: a tuple fills the places in order, a dict fills %(name)s, anything else fills
// one place.
Result<Value> format_percent(const Text& text, const Value& arguments, Budget& budget);

// text.format(...): {}, {0}, {name}, with .attribute and [index] after them and a format
// specification.
Result<Value> format_braces(const Text& text, const Arguments& arguments, Budget& budget);

}  // namespace helix::text::jinja
