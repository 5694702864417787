#pragma once

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "text/grammar/text_reader.h"

// Checks whether a JSON value satisfies a schema, by the words of JSON Schema, for what the tests'
// schemas use.

namespace helix::text::grammar::test {

using Json = nlohmann::ordered_json;

inline bool satisfies(const Json& value, const Json& schema, const Json& root);

inline bool is_integer(const Json& value) {
    return value.is_number_integer() ||
           (value.is_number_float() && value.get<double>() == std::floor(value.get<double>()));
}

inline bool has_type(const Json& value, const std::string& type) {
    if (type == "null") return value.is_null();
    if (type == "boolean") return value.is_boolean();
    if (type == "integer") return is_integer(value);
    if (type == "number") return value.is_number();
    if (type == "string") return value.is_string();
    if (type == "array") return value.is_array();
    return value.is_object();
}

inline std::size_t characters(const std::string& text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    }));
}

// Whether the pattern is found, over characters and not bytes.
inline bool is_found(const std::string& pattern, const std::string& text) {
    const auto wide = [](const std::string& of) {
        const std::u32string points = code_points(of);
        return std::wstring(points.begin(), points.end());
    };
    return std::regex_search(wide(text), std::wregex(wide(pattern)));
}

inline bool type_fits(const Json& value, const Json& schema) {
    if (!schema.contains("type")) return true;
    if (value.is_null() && schema.value("nullable", false)) return true;
    const Json list = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
    return std::any_of(list.begin(), list.end(),
                       [&](const Json& name) { return has_type(value, name.get<std::string>()); });
}

inline bool number_fits(const Json& value, const Json& schema) {
    const auto n = value.get<double>();
    if (schema.contains("multipleOf")) {
        const double parts = n / schema["multipleOf"].get<double>();
        if (std::abs(parts - std::round(parts)) > 1e-6) return false;
    }
    return n >= schema.value("minimum", -1e300) && n <= schema.value("maximum", 1e300) &&
           n > schema.value("exclusiveMinimum", -1e300) &&
           n < schema.value("exclusiveMaximum", 1e300);
}

inline bool string_fits(const Json& value, const Json& schema) {
    const auto text = value.get<std::string>();
    if (characters(text) < schema.value("minLength", std::size_t{0})) return false;
    if (characters(text) > schema.value("maxLength", std::size_t{1} << 30)) return false;
    return !schema.contains("pattern") || is_found(schema["pattern"].get<std::string>(), text);
}

inline bool array_fits(const Json& value, const Json& schema, const Json& root) {
    if (value.size() < schema.value("minItems", std::size_t{0})) return false;
    if (value.size() > schema.value("maxItems", std::size_t{1} << 30)) return false;
    const bool draft_7 = schema.contains("items") && schema["items"].is_array();
    const Json prefix = schema.value(draft_7 ? "items" : "prefixItems", Json::array());
    const Json others = schema.value(draft_7 ? "additionalItems" : "items", Json(true));
    for (std::size_t i = 0; i < value.size(); ++i) {
        if (!satisfies(value[i], i < prefix.size() ? prefix[i] : others, root)) return false;
        const auto same = std::count(value.begin(), value.end(), value[i]);
        if (schema.value("uniqueItems", false) && same > 1) return false;
    }
    return !schema.contains("contains") ||
           std::any_of(value.begin(), value.end(),
                       [&](const Json& item) { return satisfies(item, schema["contains"], root); });
}

inline bool object_fits(const Json& value, const Json& schema, const Json& root) {
    for (const Json& name : schema.value("required", Json::array())) {
        if (!value.contains(name.get<std::string>())) return false;
    }
    if (value.size() < schema.value("minProperties", std::size_t{0})) return false;
    if (value.size() > schema.value("maxProperties", std::size_t{1} << 30)) return false;
    const Json named = schema.value("properties", Json::object());
    const Json by_pattern = schema.value("patternProperties", Json::object());
    for (const auto& [name, member] : value.items()) {
        bool described = named.contains(name);
        if (described && !satisfies(member, named[name], root)) return false;
        for (const auto& [pattern, inner] : by_pattern.items()) {
            if (!is_found(pattern, name)) continue;
            described = true;
            if (!satisfies(member, inner, root)) return false;
        }
        if (!described &&
            !satisfies(member, schema.value("additionalProperties", Json(true)), root)) {
            return false;
        }
        if (!satisfies(Json(name), schema.value("propertyNames", Json(true)), root)) return false;
        const Json others = schema.value("dependentRequired", Json::object());
        for (const Json& other : others.value(name, Json::array())) {
            if (!value.contains(other.get<std::string>())) return false;
        }
    }
    return true;
}

inline bool combination_fits(const Json& value, const Json& schema, const Json& root) {
    const auto matches = [&](const char* keyword) {
        return std::count_if(schema[keyword].begin(), schema[keyword].end(),
                             [&](const Json& s) { return satisfies(value, s, root); });
    };
    if (schema.contains("anyOf") && matches("anyOf") == 0) return false;
    if (schema.contains("oneOf") && matches("oneOf") != 1) return false;
    if (schema.contains("allOf") && matches("allOf") != std::ssize(schema["allOf"])) return false;
    if (schema.contains("not") && satisfies(value, schema["not"], root)) return false;
    if (schema.contains("if")) {
        const char* branch = satisfies(value, schema["if"], root) ? "then" : "else";
        if (!satisfies(value, schema.value(branch, Json(true)), root)) return false;
    }
    if (!schema.contains("$ref")) return true;
    const auto name = schema["$ref"].get<std::string>();
    return satisfies(value, root.at(Json::json_pointer(name.substr(1))), root);
}

inline bool satisfies(const Json& value, const Json& schema, const Json& root) {
    if (schema.is_boolean()) return schema.get<bool>();
    if (schema.contains("const") && value != schema["const"]) return false;
    if (schema.contains("enum") &&
        std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end()) {
        return false;
    }
    if (!type_fits(value, schema) || !combination_fits(value, schema, root)) return false;
    if (value.is_number() && !number_fits(value, schema)) return false;
    if (value.is_string() && !string_fits(value, schema)) return false;
    if (value.is_array() && !array_fits(value, schema, root)) return false;
    return !value.is_object() || object_fits(value, schema, root);
}

}  // namespace helix::text::grammar::test
