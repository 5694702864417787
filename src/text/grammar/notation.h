#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace helix::text::grammar {

// How the values of JSON are written in calls of tools.
enum class Notation : std::uint8_t {
    json,
    python,          // as JSON, but True, False and None; no escape names half a character
    gemma,           // strings as they are between <|"|>, plain names of members without quotes
    function_gemma,  // the same with <escape>
};

// Strings are written as they are between marks, without escapes.
bool has_raw_strings(Notation notation);

// What stands at both ends of a string.
std::string_view quote_of(Notation notation);

// What a string that is written as it is cannot have: it would end the string or the call.
std::span<const std::string_view> never_in_strings(Notation notation);

// A value with the least white space; nothing for one that has a string that cannot be written.
std::optional<std::string> written_value(Notation notation, const nlohmann::ordered_json& value);

// A name that needs no quotes: letters, digits, and _ . -
bool is_plain_name(std::string_view name);

// The name of an object's member; nothing if it cannot be written.
std::optional<std::string> written_name(Notation notation, const std::string& name);

}  // namespace helix::text::grammar
