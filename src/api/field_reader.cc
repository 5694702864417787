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

const nlohmann::ordered_json* FieldReader::find(const char* name) const {
    const auto it = object_.find(name);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
}

void FieldReader::fail(const std::string& name, const std::string& message) {
    if (error_) return;
    const std::string field = prefix_ + name;
    error_ = bad_field(field, fmt::format("'{}': {}", field, message));
}

void FieldReader::number(const char* name, double low, double high, float& out) {
    const Json* value = find(name);
    if (value == nullptr) return;
    if (!value->is_number()) return fail(name, "expected a number, got " + kind_of(*value));
    const auto d = value->get<double>();
    if (!(d >= low && d <= high)) {
        return fail(name, fmt::format("expected a number from {} to {}, got {}", low, high, d));
    }
    out = static_cast<float>(d);
}

std::optional<std::int64_t> FieldReader::read_integer(const char* name, std::int64_t low,
                                                      std::int64_t high) {
    const Json* value = find(name);
    if (value == nullptr) return {};
    const auto n = as_integer(*value);
    if (!n) {
        fail(name,
             "expected an integer, got " + (value->is_number() ? value->dump() : kind_of(*value)));
        return {};
    }
    if (*n < low || *n > high) {
        fail(name, fmt::format("expected an integer from {} to {}, got {}", low, high, *n));
        return {};
    }
    return n;
}

void FieldReader::boolean(const char* name, bool& out) {
    const Json* value = find(name);
    if (value == nullptr) return;
    if (!value->is_boolean()) return fail(name, "expected true or false, got " + kind_of(*value));
    out = value->get<bool>();
}

void FieldReader::text(const char* name, std::string& out) {
    const Json* value = find(name);
    if (value == nullptr) return;
    if (!value->is_string()) return fail(name, "expected a string, got " + kind_of(*value));
    out = value->get<std::string>();
}

}  // namespace helix::api
