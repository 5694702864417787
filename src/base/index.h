#pragma once

#include <cstddef>
#include <cstdint>

namespace helix::base {

// Ids, positions and counts of ours are signed, so that a difference of two is no surprise; the
// standard containers take std::size_t. values[at(i)] is the value at place i, which is not
// negative.
constexpr std::size_t at(std::int64_t index) {
    return static_cast<std::size_t>(index);
}

// A count that is not negative, as the standard containers take it.
constexpr std::size_t size_of(std::int64_t count) {
    return static_cast<std::size_t>(count);
}

}  // namespace helix::base
