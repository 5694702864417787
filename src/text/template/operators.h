#pragma once

#include <optional>
#include <string>

#include "text/template/value.h"

// Python's operators on template values.

namespace helix::text::jinja {

enum class BinaryOperator { add, subtract, multiply, divide, floor_divide, modulo, power };
enum class CompareOperator {
    equal,
    not_equal,
    less,
    less_equal,
    greater,
    greater_equal,
    in,
    not_in
};

const char* to_string(BinaryOperator op);
const char* to_string(CompareOperator op);

Result<Value> apply(BinaryOperator op, const Value& left, const Value& right, Budget& budget);
Result<Value> negate(const Value& value);
Result<Value> unary_plus(const Value& value);

Result<bool> compare(CompareOperator op, const Value& left, const Value& right, Budget& budget);
Result<bool> equals(const Value& left, const Value& right, Budget& budget);
Result<bool> less(const Value& left, const Value& right, Budget& budget);
Result<bool> contains(const Value& container, const Value& item, Budget& budget);

// Evaluates value[start:stop:step]; an absent bound is none.
Result<Value> slice(const Value& value, const Value& start, const Value& stop, const Value& step,
                    Budget& budget);

// The error of using an undefined value, or none if it is defined.
std::optional<base::Error> undefined_error(const Value& value);

}  // namespace helix::text::jinja
