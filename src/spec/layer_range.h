#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>

namespace helix::spec {

using Token = std::int32_t;

// Transformer layers [begin, end), counted from 0.
struct LayerRange {
    std::int32_t begin = 0;
    std::int32_t end = 0;

    constexpr auto operator<=>(const LayerRange&) const = default;
    constexpr std::int32_t size() const { return end - begin; }
    constexpr bool empty() const { return end <= begin; }
    constexpr bool contains(std::int32_t layer) const { return begin <= layer && layer < end; }
    constexpr bool contains(LayerRange r) const { return begin <= r.begin && r.end <= end; }
};

constexpr LayerRange intersect(LayerRange a, LayerRange b) {
    return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

// Those of the layers that have keys and values of their own, where the last `shared` of a model's
// layers read those of layers before them. They are the first of the range.
constexpr LayerRange kv_layers(LayerRange layers, std::int32_t n_layers, std::int32_t shared) {
    if (shared == 0 || layers.empty()) return layers;
    return {layers.begin, std::clamp(n_layers - shared, layers.begin, layers.end)};
}

}  // namespace helix::spec
