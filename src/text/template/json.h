#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "text/template/value.h"

namespace helix::text::jinja {

// Integers beyond 64 bits signed and nesting beyond the budget's are errors.
Result<Value> from_json(const nlohmann::ordered_json& json, Budget& budget);

// The style of Python's json.dumps.
struct JsonStyle {
    bool ensure_ascii = false;
    bool sort_keys = false;
    bool pretty = false;  // one item a line
    std::string indent;   // per level, if pretty
    std::string item_separator = ", ";
    std::string key_separator = ": ";
};
Result<std::string> to_json(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace helix::text::jinja
