#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace helix::spec {

// What JSON from outside may be. Within these limits it is safe to walk it by recursion.
struct JsonLimits {
    std::size_t depth = 128;            // of arrays and objects inside each other
    std::size_t elements = 20'000'000;  // values of all kinds; one takes up to some 100 bytes
};

struct JsonProblem {
    std::string message;      // a limit, or what the parser says
    bool over_limit = false;  // false: the text is no JSON
    std::size_t byte = 0;     // where, from 0
};

struct JsonFacts {
    std::size_t elements = 0;
    // The first name that the outermost object has twice. Of equal names the last one counts.
    std::optional<std::string> repeated;
};

// Reads the whole text in linear time, however many members an object has. When it returns a
// problem, out means nothing. Json is nlohmann::json or nlohmann::ordered_json.
template <typename Json>
std::optional<JsonProblem> read_bounded_json(std::string_view text, const JsonLimits& limits,
                                             Json& out, JsonFacts* facts = nullptr);

extern template std::optional<JsonProblem> read_bounded_json(std::string_view, const JsonLimits&,
                                                             nlohmann::json&, JsonFacts*);
extern template std::optional<JsonProblem> read_bounded_json(std::string_view, const JsonLimits&,
                                                             nlohmann::ordered_json&, JsonFacts*);

// For callers that only ask whether the text can be read: a discarded value if it cannot.
nlohmann::json bounded_json_or_discarded(std::string_view text, const JsonLimits& limits = {});

}  // namespace helix::spec
