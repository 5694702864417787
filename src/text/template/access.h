#pragma once

#include <string_view>

#include "text/template/call.h"
#include "text/template/value.h"

namespace helix::text::jinja {

// value.name: what the object itself has comes first, then the item of that name. An Undefined if
// both are missing. Fails on an undefined value.
Result<Value> get_attribute(const Value& value, std::string_view name, Budget& budget);

// value[index]: the item comes first, then the attribute of that name. An Undefined if both are
// missing.
Result<Value> get_item(const Value& value, const Value& index, Budget& budget);

// Follows a path like "a.b.0", which the `attribute` argument of filters takes.
Result<Value> get_path(const Value& value, const Value& path, Budget& budget);

// Calls a method of a string, list or dict. There are no methods that change a list or dict.
Result<Value> call_method(const Value& receiver, std::string_view name, const Arguments& arguments,
                          Budget& budget);

Result<Value> call_string_method(const Text& receiver, std::string_view name,
                                 const Arguments& arguments, Budget& budget);
bool is_string_method(std::string_view name);

Result<Value> call_loop_method(Loop& loop, std::string_view name, const Arguments& arguments,
                               Budget& budget);

}  // namespace helix::text::jinja
