#include "plan/rules/heuristics.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "base/index.h"
#include "base/random.h"

namespace helix::plan {
namespace {

using spec::LayerRange;
using spec::Placement;

using base::at;

const NodeCapacity& node(const CapacityTable& capacities, std::int32_t i) {
    return capacities.nodes[at(i)];
}

Placement nothing_placed(const CapacityTable& capacities) {
    return {std::vector<LayerRange>(capacities.nodes.size())};
}

bool covers(const Placement& placement, std::int32_t n_layers) {
    std::vector<bool> held(at(n_layers));
    for (const LayerRange range : placement.layers) {
        for (std::int32_t l = range.begin; l < range.end; ++l) held[at(l)] = true;
    }
    return std::find(held.begin(), held.end(), false) == held.end();
}

// Most layers of node k of a chain of n nodes.
std::int32_t limit_in_chain(const NodeCapacity& capacity, std::size_t k, std::size_t n) {
    return capacity.max_layers[k == 0][k + 1 == n];
}

// The nodes with those at the ends exchanged for the pair that loses least to embedding and head.
std::vector<std::int32_t> with_fitting_ends(const CapacityTable& capacities,
                                            std::span<const std::int32_t> nodes) {
    std::vector<std::int32_t> order(nodes.begin(), nodes.end());
    if (order.size() < 2) return order;
    const auto loss = [&](std::size_t first, std::size_t last) {
        const NodeCapacity& a = node(capacities, order[first]);
        const NodeCapacity& b = node(capacities, order[last]);
        if (a.max_layers[1][0] == 0 || b.max_layers[0][1] == 0)
            return 2 * (a.most() + b.most()) + 1;
        return a.most() - a.max_layers[1][0] + b.most() - b.max_layers[0][1];
    };
    std::size_t best_first = 0;
    std::size_t best_last = order.size() - 1;
    for (std::size_t first = 0; first < order.size(); ++first) {
        for (std::size_t last = 0; last < order.size(); ++last) {
            if (first != last && loss(first, last) < loss(best_first, best_last)) {
                best_first = first;
                best_last = last;
            }
        }
    }
    const std::int32_t last_node = order[best_last];
    std::swap(order[0], order[best_first]);
    std::swap(order.back(), *std::find(order.begin(), order.end(), last_node));
    return order;
}

// Layers each node of the chain can hold at tokens_per_s or more.
std::vector<std::int32_t> sizes_at(const CapacityTable& capacities,
                                   std::span<const std::int32_t> order, double tokens_per_s) {
    std::vector<std::int32_t> sizes;
    for (std::size_t k = 0; k < order.size(); ++k) {
        const NodeCapacity& capacity = node(capacities, order[k]);
        std::int32_t size = limit_in_chain(capacity, k, order.size());
        while (size > 0 && capacity.tokens_per_s[at(size)] < tokens_per_s) --size;
        sizes.push_back(size);
    }
    return sizes;
}

double chain_speed(const CapacityTable& capacities, const Placement& placement) {
    double slowest = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < placement.layers.size(); ++i) {
        if (placement.layers[i].empty()) continue;
        slowest = std::min(slowest, capacities.nodes[i].throughput(placement.layers[i]));
    }
    return slowest;
}

// Node indices, those with the most token-layers per second first.
std::vector<std::int32_t> fastest_first(const CapacityTable& capacities) {
    std::vector<std::int32_t> order(capacities.nodes.size());
    std::iota(order.begin(), order.end(), 0);
    std::erase_if(order, [&](std::int32_t i) { return node(capacities, i).most() == 0; });
    const auto work = [&](std::int32_t i) {
        const NodeCapacity& capacity = node(capacities, i);
        return capacity.tokens_per_s.back() * static_cast<double>(capacity.most());
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int32_t a, std::int32_t b) { return work(a) > work(b); });
    return order;
}

}  // namespace

std::optional<Placement> chain_placement(const CapacityTable& capacities, std::int32_t n_layers,
                                         std::span<const std::int32_t> nodes) {
    if (nodes.empty()) return std::nullopt;
    const std::vector<std::int32_t> order = with_fitting_ends(capacities, nodes);
    // Both ends must hold something, else a neighbour without room for the embedding or head
    // becomes the end.
    const auto enough = [&](const std::vector<std::int32_t>& sizes) {
        return sizes.front() > 0 && sizes.back() > 0 &&
               std::accumulate(sizes.begin(), sizes.end(), 0) >= n_layers;
    };
    double low = 0;
    double high = 0;
    for (const std::int32_t i : order) {
        for (const double t : node(capacities, i).tokens_per_s) high = std::max(high, t);
    }
    if (!enough(sizes_at(capacities, order, low))) return std::nullopt;
    for (int step = 0; step < 60; ++step) {
        const double middle = (low + high) / 2;
        (enough(sizes_at(capacities, order, middle)) ? low : high) = middle;
    }
    std::vector<std::int32_t> sizes = sizes_at(capacities, order, low);
    std::int32_t surplus = std::accumulate(sizes.begin(), sizes.end(), 0) - n_layers;
    for (; surplus > 0; --surplus) {
        std::size_t slowest = order.size();
        for (std::size_t k = 0; k < order.size(); ++k) {
            const bool end = k == 0 || k + 1 == order.size();
            if (sizes[k] <= (end ? 1 : 0)) continue;
            const auto speed = [&](std::size_t n) {
                return node(capacities, order[n]).tokens_per_s[at(sizes[n])];
            };
            if (slowest == order.size() || speed(k) < speed(slowest)) slowest = k;
        }
        if (slowest == order.size()) return std::nullopt;  // more ends than layers
        --sizes[slowest];
    }
    Placement placement = nothing_placed(capacities);
    std::int32_t begin = 0;
    for (std::size_t k = 0; k < order.size(); ++k) {
        placement.layers[at(order[k])] = {begin, begin + sizes[k]};
        begin += sizes[k];
        if (sizes[k] == 0) placement.layers[at(order[k])] = {};
    }
    return placement;
}

std::optional<Placement> even_placement(const CapacityTable& capacities, std::int32_t n_layers) {
    const std::vector<std::int32_t> by_speed = fastest_first(capacities);
    std::optional<Placement> best;
    double best_speed = 0;
    for (std::size_t k = 1; k <= by_speed.size(); ++k) {
        std::vector<std::int32_t> nodes(by_speed.begin(),
                                        by_speed.begin() + static_cast<std::ptrdiff_t>(k));
        std::sort(nodes.begin(), nodes.end());
        std::optional<Placement> placement = chain_placement(capacities, n_layers, nodes);
        if (!placement) continue;
        const double speed = chain_speed(capacities, *placement);
        if (speed > best_speed) {
            best_speed = speed;
            best = std::move(placement);
        }
    }
    for (std::size_t i = 0; i < capacities.nodes.size(); ++i) {
        const NodeCapacity& capacity = capacities.nodes[i];
        if (capacity.max_layers[1][1] < n_layers ||
            capacity.tokens_per_s[at(n_layers)] <= best_speed)
            continue;
        best = nothing_placed(capacities);
        best->layers[i] = {0, n_layers};
        best_speed = capacity.tokens_per_s[at(n_layers)];
    }
    return best;
}

std::optional<Placement> replicated_placement(const CapacityTable& capacities,
                                              std::int32_t n_layers) {
    std::vector<std::int32_t> rest = fastest_first(capacities);
    std::stable_sort(rest.begin(), rest.end(), [&](std::int32_t a, std::int32_t b) {
        return node(capacities, a).most() > node(capacities, b).most();
    });
    Placement placement = nothing_placed(capacities);
    std::vector<std::int32_t> group;
    for (const std::int32_t i : rest) {
        group.push_back(i);
        const std::optional<Placement> chain = chain_placement(capacities, n_layers, group);
        if (!chain) continue;
        for (const std::int32_t member : group)
            placement.layers[at(member)] = chain->layers[at(member)];
        group.clear();
    }
    if (!covers(placement, n_layers)) return std::nullopt;
    std::vector<double> speed(at(n_layers), 0.0);
    const auto add = [&](std::int32_t i) {
        const LayerRange range = placement.layers[at(i)];
        for (std::int32_t l = range.begin; l < range.end; ++l) {
            speed[at(l)] += node(capacities, i).throughput(range);
        }
    };
    for (const std::int32_t i : rest) add(i);
    for (const std::int32_t i : group) {
        LayerRange best;
        double best_sum = std::numeric_limits<double>::infinity();
        const std::int32_t size = std::min(node(capacities, i).most(), n_layers);
        for (std::int32_t begin = 0; begin + size <= n_layers; ++begin) {
            const LayerRange range{begin, begin + size};
            if (!node(capacities, i).fits(range, n_layers)) continue;
            const double sum =
                std::accumulate(speed.begin() + begin, speed.begin() + range.end, 0.0);
            if (sum < best_sum) {
                best_sum = sum;
                best = range;
            }
        }
        placement.layers[at(i)] = best;
        add(i);
    }
    return placement;
}

std::vector<std::int32_t> shuffled_order(std::int32_t n, std::uint64_t seed) {
    CHECK(n >= 0);
    std::vector<std::int32_t> order(at(n));
    std::iota(order.begin(), order.end(), 0);
    base::Random random(seed);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    return order;
}

std::optional<Placement> petals_placement(const CapacityTable& capacities, std::int32_t n_layers,
                                          std::span<const std::int32_t> order) {
    Placement placement = nothing_placed(capacities);
    std::vector<double> speed(at(n_layers), 0.0);
    for (const std::int32_t i : order) {
        const NodeCapacity& capacity = node(capacities, i);
        const std::int32_t size = std::min(capacity.most(), n_layers);
        if (size == 0) continue;
        LayerRange best;
        std::vector<double> best_key;
        for (std::int32_t begin = 0; begin + size <= n_layers; ++begin) {
            LayerRange range{begin, begin + size};
            // The embedding costs layers at the end, the head at the beginning of the range.
            while (!range.empty() && !capacity.fits(range, n_layers)) {
                if (range.begin == 0) {
                    --range.end;
                } else {
                    ++range.begin;
                }
            }
            if (range.empty()) continue;
            std::vector<double> key(speed.begin() + range.begin, speed.begin() + range.end);
            std::sort(key.begin(), key.end());
            if (best.empty() || key < best_key) {
                best = range;
                best_key = std::move(key);
            }
        }
        if (best.empty()) continue;
        placement.layers[at(i)] = best;
        for (std::int32_t l = best.begin; l < best.end; ++l)
            speed[at(l)] += capacity.throughput(best);
    }
    if (!covers(placement, n_layers)) return std::nullopt;
    return placement;
}

std::int32_t swarm_stages(const CapacityTable& capacities, std::int32_t n_layers) {
    std::int32_t weakest = n_layers;
    for (const NodeCapacity& capacity : capacities.nodes) {
        if (capacity.most() > 0) weakest = std::min(weakest, capacity.most());
    }
    const std::int32_t least = (n_layers + weakest - 1) / weakest;
    for (std::int32_t stages = least; stages <= std::min(2 * least, n_layers); ++stages) {
        if (n_layers % stages == 0) return stages;
    }
    return least;
}

std::optional<Placement> swarm_placement(const CapacityTable& capacities, std::int32_t n_layers,
                                         std::int32_t n_stages) {
    if (n_stages == 0) n_stages = swarm_stages(capacities, n_layers);
    CHECK(n_stages > 0);
    if (n_stages > n_layers) return std::nullopt;
    std::vector<LayerRange> stages;
    for (std::int32_t s = 0; s < n_stages; ++s) {
        stages.push_back({n_layers * s / n_stages, n_layers * (s + 1) / n_stages});
    }
    const std::int32_t longest = (n_layers + n_stages - 1) / n_stages;
    std::vector<std::int32_t> order(capacities.nodes.size());
    std::iota(order.begin(), order.end(), 0);
    std::erase_if(order, [&](std::int32_t i) { return node(capacities, i).most() < longest; });
    std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
        const double speed_a = node(capacities, a).tokens_per_s[at(longest)];
        const double speed_b = node(capacities, b).tokens_per_s[at(longest)];
        return speed_a != speed_b ? speed_a > speed_b : a > b;
    });
    Placement placement = nothing_placed(capacities);
    std::vector<double> speed(stages.size(), 0.0);
    for (const std::int32_t i : order) {
        std::size_t best = stages.size();
        for (std::size_t s = 0; s < stages.size(); ++s) {
            if (!node(capacities, i).fits(stages[s], n_layers)) continue;
            if (best == stages.size() || speed[s] < speed[best]) best = s;
        }
        if (best == stages.size()) continue;
        placement.layers[at(i)] = stages[best];
        speed[best] += node(capacities, i).throughput(stages[best]);
    }
    if (!covers(placement, n_layers)) return std::nullopt;
    return placement;
}

std::int32_t holdable_layers(const CapacityTable& capacities, std::int32_t n_layers) {
    std::int32_t all = 0;
    std::int32_t best = 0;
    for (const NodeCapacity& capacity : capacities.nodes) {
        all += capacity.most();
        if (capacity.max_layers[1][1] >= n_layers) return n_layers;
    }
    if (n_layers == 1) return 0;  // the two ends of a chain hold one layer each at least
    for (const NodeCapacity& a : capacities.nodes) {
        for (const NodeCapacity& b : capacities.nodes) {
            if (&a == &b || a.max_layers[1][0] == 0 || b.max_layers[0][1] == 0) continue;
            best =
                std::max(best, all - a.most() - b.most() + a.max_layers[1][0] + b.max_layers[0][1]);
        }
    }
    return std::min(best, n_layers);
}

}  // namespace helix::plan
