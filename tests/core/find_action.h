#pragma once

#include <optional>
#include <variant>
#include <vector>

namespace helix::core {

// A copy of the first action of kind T, if there is one.
template <typename T, typename Action>
std::optional<T> find(const std::vector<Action>& actions) {
    for (const Action& action : actions) {
        if (const auto* found = std::get_if<T>(&action)) return *found;
    }
    return std::nullopt;
}

}  // namespace helix::core
