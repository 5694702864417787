#pragma once

#include <map>
#include <string_view>

#include "text/template/call.h"
#include "text/template/value.h"

namespace helix::text::jinja {

// Evaluates value|name(arguments). An unknown name is an error.
Result<Value> apply_filter(std::string_view name, const Value& value, const Arguments& arguments,
                           Budget& budget);
// Evaluates `value is name(arguments)`.
Result<bool> apply_test(std::string_view name, const Value& value, const Arguments& arguments,
                        Budget& budget);

bool is_filter(std::string_view name);
bool is_test(std::string_view name);

// One use of a filter.
struct FilterCall {
    std::string_view name;
    const Value& value;
    const Arguments& arguments;
    Budget& budget;

    Result<Bound> bind(std::string_view parameters, std::size_t required = 0) const {
        return Bound::bind(name, parameters, required, arguments);
    }
    bool markup() const { return value.is<Text>() && value.get<Text>()->markup; }
    Result<Value> text(std::string made, bool markup = false) const {
        return make_text(std::move(made), budget, markup);
    }
};

using Filter = Result<Value> (*)(const FilterCall&);
using FilterTable = std::map<std::string_view, Filter>;

// The parts of the table, by what they work on.
const FilterTable& text_filters();
const FilterTable& number_filters();
const FilterTable& sequence_filters();
const FilterTable& selection_filters();

}  // namespace helix::text::jinja
