#include "api/field_reader.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace helix::api {

std::optional<std::int64_t> as_integer(const nlohmann::ordered_json& value) {
    if (value.is_number_unsigned()) {
        const auto n = value.get<std::uint64_t>();
        if (n > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return {};
        return static_cast<std::int64_t>(n);
    }
    if (value.is_number_integer()) return value.get<std::int64_t>();
    if (value.is_number_float()) {
        const double d = value.get<double>();
        if (std::floor(d) == d && std::abs(d) < 9e15) return static_cast<std::int64_t>(d);
    }
    return {};
}

std::string kind_of(const nlohmann::ordered_json& value) {
    switch (value.type()) {
        case nlohmann::ordered_json::value_t::null:
            return "null";
        case nlohmann::ordered_json::value_t::object:
            return "an object";
        case nlohmann::ordered_json::value_t::array:
            return "an array";
        case nlohmann::ordered_json::value_t::string:
            return "a string";
        case nlohmann::ordered_json::value_t::boolean:
            return "a boolean";
        default:
            return "a number";
    }
}

const nlohmann::ordered_json* FieldReader::find(std::string_view name) const {
    const auto it = object_.find(name);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
}

void FieldReader::fail(std::string_view name, const std::string& message) {
    if (error_) return;
    const std::string field = prefix_ + std::string(name);
    error_ = bad_field(field, fmt::format("'{}': {}", field, message));
}

void FieldReader::number(const BodyField& field, float& out) {
    const Json* value = find(field);
    if (value == nullptr) return;
    if (!value->is_number()) return fail(field, "expected a number, got " + kind_of(*value));
    const auto d = value->get<double>();
    if (!(d >= field.low && d <= field.high)) {
        return fail(field, fmt::format("expected a number from {} to {}, got {}", field.low,
                                       field.high, d));
    }
    out = static_cast<float>(d);
}

std::optional<std::int64_t> FieldReader::read_integer(const BodyField& field,
                                                      std::optional<std::int64_t> most) {
    const Json* value = find(field);
    if (value == nullptr) return {};
    const auto n = as_integer(*value);
    if (!n) {
        fail(field,
             "expected an integer, got " + (value->is_number() ? value->dump() : kind_of(*value)));
        return {};
    }
    if (field.low == field.high && !most) return n;
    const auto low = static_cast<std::int64_t>(field.low);
    const std::int64_t high = most.value_or(static_cast<std::int64_t>(field.high));
    if (*n < low || *n > high) {
        fail(field, fmt::format("expected an integer from {} to {}, got {}", low, high, *n));
        return {};
    }
    return n;
}

void FieldReader::boolean(const BodyField& field, bool& out) {
    const Json* value = find(field);
    if (value == nullptr) return;
    if (!value->is_boolean()) return fail(field, "expected true or false, got " + kind_of(*value));
    out = value->get<bool>();
}

void FieldReader::text(const BodyField& field, std::string& out) {
    const Json* value = find(field);
    if (value == nullptr) return;
    if (!value->is_string()) return fail(field, "expected a string, got " + kind_of(*value));
    out = value->get<std::string>();
}

}  // namespace helix::api
