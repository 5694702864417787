#pragma once

#include <cmath>
#include <cstdint>

#include <fmt/format.h>

#include "base/result.h"
#include "spec/json_place.h"

// Fields of a config.json, where null counts as absent. Errors name the key and what was expected.

namespace helix::model::json_fields {

using spec::JsonPlace;

inline base::Result<std::int32_t> count(const JsonPlace& root, const char* key, std::int64_t high) {
    TRY(const JsonPlace place, root.member(key));
    TRY(const std::int64_t value, place.integer());
    if (value < 1 || value > high) return place.error(fmt::format("1 to {}", high));
    return static_cast<std::int32_t>(value);
}

inline base::Result<std::int32_t> count_or(const JsonPlace& root, const char* key,
                                           std::int64_t high, std::int32_t otherwise) {
    if (!root.present(key)) return otherwise;
    return count(root, key, high);
}

inline base::Result<float> positive_or(const JsonPlace& root, const char* key, double otherwise) {
    if (!root.present(key)) return static_cast<float>(otherwise);
    const JsonPlace place = root.child(key);
    TRY(const double value, place.number());
    const auto narrow = static_cast<float>(value);
    if (!std::isfinite(narrow) || narrow <= 0) return place.error("a number above zero");
    return narrow;
}

}  // namespace helix::model::json_fields
