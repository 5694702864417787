#pragma once

#include <string_view>

#include "text/template/call.h"
#include "text/template/value.h"

namespace helix::text::jinja {

// value.name: what the object itself has comes first, then the item of that name. Missing: an
// Undefined. Fails on an undefined value.
Result<Value> get_attribute(const Value& value, std::string_view name, Budget& budget);

// value[index]: the item comes first, then the attribute of that name. Missing: an Undefined.
Result<Value> get_item(const Value& value, const Value& index, Budget& budget);

// "a.b.0": the path that the `attribute` argument of filters takes.
Result<Value> get_path(const Value& value, const Value& path, Budget& budget);

// Calls a method of a string, list or dict. Methods that change a list or dict are not to be had.
Result<Value> call_method(const Value& receiver, std::string_view name, const Arguments& arguments,
                          Budget& budget);

Result<Value> call_string_method(const Text& receiver, std::string_view name,
                                 const Arguments& arguments, Budget& budget);
bool is_string_method(std::string_view name);

Result<Value> call_loop_method(Loop& loop, std::string_view name, const Arguments& arguments,
                               Budget& budget);

}  // namespace helix::text::jinja
