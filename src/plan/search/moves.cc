#include "plan/search/moves.h"

#include <algorithm>

#include "base/check.h"
#include "base/index.h"

namespace helix::plan {
namespace {

using spec::LayerRange;

using base::at;

}  // namespace

Mover::Mover(const CapacityTable& capacities, std::int32_t n_layers, base::Random& random)
    : capacities_(capacities), n_layers_(n_layers), random_(random) {
    CHECK(!capacities.nodes.empty() && n_layers > 0);
}

void Mover::move(Layers& layers, std::int32_t weakest) {
    const std::int32_t i = random_node();
    switch (random_.below(14)) {
        case 0:
        case 1:
        case 2:
            place_beside(layers, i);
            break;
        case 3:
        case 4:
            place_over(layers, i, weakest);
            break;
        case 5:
        case 6:
            set(layers, i, {layers[at(i)].begin, layers[at(i)].end + step()});
            break;
        case 7:
            set(layers, i, {layers[at(i)].begin + step(), layers[at(i)].end});
            break;
        case 8:
            shift(layers, i);
            break;
        case 9:
            exchange(layers, i, random_node());
            break;
        case 10:
            move_boundary(layers, i);
            break;
        case 11:
            move_boundaries(layers);
            break;
        case 12:
            exchange_runs(layers);
            break;
        default:
            if (random_.chance(0.2)) layers[at(i)] = {};
            break;
    }
}

std::int32_t Mover::random_node() {
    return static_cast<std::int32_t>(random_.below(capacities_.nodes.size()));
}

std::int32_t Mover::random_size(std::int32_t most) {
    if (random_.chance(0.4)) return most;
    return static_cast<std::int32_t>(random_.between(1, most));
}

std::int32_t Mover::step() {
    const auto size = static_cast<std::int32_t>(random_.between(1, 2));
    return random_.chance(0.5) ? size : -size;
}

std::int32_t Mover::random_boundary(const Layers& layers) {
    const LayerRange range = layers[at(random_node())];
    return random_.chance(0.5) ? range.begin : range.empty() ? n_layers_ : range.end;
}

void Mover::set(Layers& layers, std::int32_t i, LayerRange range) const {
    range = spec::intersect(range, {0, n_layers_});
    const NodeCapacity& capacity = capacities_.nodes[at(i)];
    // A cut between joined layers moves to where they begin or end, whichever is nearer.
    const std::int32_t joined = n_layers_ - capacity.joined_layers;
    for (std::int32_t* cut : {&range.begin, &range.end}) {
        if (*cut > joined && *cut < n_layers_)
            *cut = *cut - joined <= n_layers_ - *cut ? joined : n_layers_;
    }
    range.end = std::min(range.end, range.begin + capacity.most());
    while (!range.empty() && !capacity.fits(range, n_layers_)) {
        if (range.begin == 0) {
            --range.end;
        } else {
            ++range.begin;
        }
    }
    if (!range.empty()) layers[at(i)] = range;
}

// Before or after another node's range.
void Mover::place_beside(Layers& layers, std::int32_t i) {
    const std::int32_t most = capacities_.nodes[at(i)].most();
    if (most == 0) return;
    const LayerRange other = layers[at(random_node())];
    const LayerRange second = layers[at(random_node())];
    LayerRange range;
    if (random_.chance(0.3)) {  // from one's end to another's begin, or over the same layers
        range = random_.chance(0.5) ? LayerRange{other.end, second.begin} : other;
    } else if (random_.chance(0.5)) {
        range = {other.end, other.end + random_size(most)};
    } else {
        range = {other.begin - random_size(most), other.begin};
    }
    set(layers, i, range);
}

void Mover::place_over(Layers& layers, std::int32_t i, std::int32_t layer) {
    const std::int32_t most = capacities_.nodes[at(i)].most();
    if (most == 0) return;
    const std::int32_t size = std::min(random_size(most), n_layers_);
    const auto before = static_cast<std::int32_t>(random_.between(0, size - 1));
    const std::int32_t begin = std::clamp(layer - before, 0, n_layers_ - size);
    set(layers, i, {begin, begin + size});
}

void Mover::shift(Layers& layers, std::int32_t i) {
    const std::int32_t by = step();
    const LayerRange range = layers[at(i)];
    if (range.begin + by < 0 || range.end + by > n_layers_) return;
    set(layers, i, {range.begin + by, range.end + by});
}

void Mover::exchange(Layers& layers, std::int32_t i, std::int32_t k) const {
    const LayerRange mine = layers[at(i)];
    const LayerRange other = layers[at(k)];
    if (mine.empty() || other.empty()) return;
    set(layers, i, other);
    set(layers, k, mine);
}

// Everything that ends or begins where node i ends, one or two layers on.
void Mover::move_boundary(Layers& layers, std::int32_t i) {
    const std::int32_t boundary = layers[at(i)].end;
    if (boundary <= 0 || boundary >= n_layers_) return;
    const std::int32_t moved = boundary + step();
    for (std::int32_t k = 0; at(k) < layers.size(); ++k) {
        const LayerRange range = layers[at(k)];
        if (range.end == boundary) set(layers, k, {range.begin, moved});
        if (range.begin == boundary) set(layers, k, {moved, range.end});
    }
}

// All boundaries between two, one or two layers on: what lies between moves, its neighbours yield.
void Mover::move_boundaries(Layers& layers) {
    const std::int32_t one = random_boundary(layers);
    const std::int32_t other = random_boundary(layers);
    const LayerRange moving{std::max(1, std::min(one, other)),
                            std::min(n_layers_, std::max(one, other) + 1)};
    const std::int32_t by = step();
    for (std::int32_t k = 0; at(k) < layers.size(); ++k) {
        LayerRange range = layers[at(k)];
        if (range.empty()) continue;
        if (moving.contains(range.begin)) range.begin += by;
        if (moving.contains(range.end)) range.end += by;
        if (range != layers[at(k)]) set(layers, k, range);
    }
}

// [a, b) and [b, c) change places with all ranges that lie inside one of them.
void Mover::exchange_runs(Layers& layers) {
    std::int32_t cuts[3] = {random_boundary(layers), random_boundary(layers),
                            random_boundary(layers)};
    std::sort(std::begin(cuts), std::end(cuts));
    const LayerRange first{cuts[0], cuts[1]};
    const LayerRange second{cuts[1], cuts[2]};
    if (first.empty() || second.empty()) return;
    for (std::int32_t k = 0; at(k) < layers.size(); ++k) {
        const LayerRange range = layers[at(k)];
        if (range.empty()) continue;
        if (first.contains(range))
            set(layers, k, {range.begin + second.size(), range.end + second.size()});
        if (second.contains(range))
            set(layers, k, {range.begin - first.size(), range.end - first.size()});
    }
}

}  // namespace helix::plan
