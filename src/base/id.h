#pragma once

#include <compare>
#include <cstdint>

namespace helix::base {

// A number that cannot be mistaken for another kind of number. Tag only tells the kinds apart.
template <typename Tag, typename Rep = std::uint64_t>
struct Id {
    Rep value = 0;
    constexpr auto operator<=>(const Id&) const = default;
};

}  // namespace helix::base
