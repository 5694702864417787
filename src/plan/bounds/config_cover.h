#pragma once

#include <cstdint>
#include <vector>

namespace helix::plan {

// One way for a node to serve a layer, in whole numbers so that sums are exact.
struct CoverItem {
    std::int64_t flow = 0;   // > 0: tokens/s it adds, rounded up
    std::int64_t price = 0;  // >= 0
};

struct Cover {
    std::int64_t price = 0;           // no set of items that suffices is cheaper
    std::vector<std::int32_t> count;  // [item] of such a set; with `rounded` it may fall short
    bool rounded = false;             // found on a coarser grid (flows rounded up once more)
};

// The cheapest multiset of at least `least_items` items whose flows sum to at least `demand` (an
// unbounded min-knapsack). Exact by depth-first search where that ends soon, otherwise by dynamic
// programming over `grid` steps of flow; the price is a lower bound either way.
Cover cheapest_cover(const std::vector<CoverItem>& items, std::int64_t demand,
                     std::int32_t least_items, std::int32_t grid);

}  // namespace helix::plan
