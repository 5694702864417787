#include "plan/flow/target_flow.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/index.h"
#include "plan/flow/flow_network.h"

namespace helix::plan {
namespace {

using spec::kCoordinator;
using spec::LayerRange;

constexpr std::int64_t kUnlimitedUnits = std::int64_t{1} << 60;
constexpr std::int32_t kMissingLayer = 2;  // half layers
constexpr std::int32_t kOverlap = 1;
constexpr std::int32_t kMissingLink = 2;
constexpr double kRounding = 1e-9;  // of sums of doubles, in layers

using base::at;

std::int64_t to_units(double tokens_per_s) {
    return static_cast<std::int64_t>(std::floor(std::min(tokens_per_s, 1e9) * kUnitsPerToken));
}

}  // namespace

TargetFlow::TargetFlow(const Problem& problem, const FlowOptions& options)
    : capacities_(problem.capacities),
      n_layers_(problem.model.n_layers),
      n_nodes_(static_cast<std::int32_t>(problem.cluster.nodes.size())),
      partial_(options.partial) {
    CHECK(problem.capacities.nodes.size() == problem.cluster.nodes.size() && n_layers_ > 0);
    auto hop_bytes = static_cast<double>(problem.model.activation_bytes_per_token);
    if (options.convention == Convention::reference)
        hop_bytes += static_cast<double>(problem.model.token_bytes);
    std::set<std::pair<std::int32_t, std::int32_t>> only;
    if (options.only_links) only.insert(options.only_links->begin(), options.only_links->end());
    const std::size_t n = problem.cluster.nodes.size();
    link_tokens_.assign(n * n, 0.0);
    source_tokens_.assign(n, 0.0);
    sink_tokens_.assign(n, 0.0);
    for (const spec::NodeSpec& node : problem.cluster.nodes) {
        double limit = std::numeric_limits<double>::infinity();
        for (const double nic : {node.nic_in_bytes_per_s, node.nic_out_bytes_per_s}) {
            if (nic > 0) limit = std::min(limit, nic / hop_bytes);
        }
        nic_limit_.push_back(limit);
    }
    for (const spec::LinkSpec& link : problem.cluster.links) {
        if (link.from == link.to) continue;
        if (options.only_links && !only.contains({link.from, link.to})) continue;
        const double ends =
            link.bandwidth_bytes_per_s / static_cast<double>(problem.model.token_bytes);
        if (link.from == kCoordinator) {
            source_tokens_[at(link.to)] = ends;
        } else if (link.to == kCoordinator) {
            sink_tokens_[at(link.from)] = ends;
        } else {
            link_tokens_[at(link.from) * n + at(link.to)] = link.bandwidth_bytes_per_s / hop_bytes;
        }
    }
    find_groups();
    flat_ = n_groups_ == 1 && wide_ends_[0];
    covered_ = partial_ && flat_;
    boundary_of_.resize(at(n_layers_) + 1);
    in_.resize(n);
    out_.resize(n);
    buckets_.resize(static_cast<std::size_t>(kMissingLayer * n_layers_ + kMissingLink) * 4 + 8);
}

double TargetFlow::fastest(std::int32_t node) const {
    const std::vector<double>& speeds = capacities_.nodes[at(node)].tokens_per_s;
    return std::min(nic_limit_[at(node)], *std::max_element(speeds.begin(), speeds.end()));
}

bool TargetFlow::wide(std::int32_t from, std::int32_t to) const {
    return link_tokens_[at(from) * at(n_nodes_) + at(to)] >= std::min(fastest(from), fastest(to));
}

// Greedily: each node joins the first group to all of whose members it has wide links both ways.
void TargetFlow::find_groups() {
    std::vector<std::vector<std::int32_t>> groups;
    for (std::int32_t i = 0; i < n_nodes_; ++i) {
        const auto joins = [&](const std::vector<std::int32_t>& group) {
            return std::all_of(group.begin(), group.end(),
                               [&](std::int32_t k) { return wide(i, k) && wide(k, i); });
        };
        const auto found = std::find_if(groups.begin(), groups.end(), joins);
        group_.push_back(static_cast<std::int32_t>(found - groups.begin()));
        if (found == groups.end()) {
            groups.push_back({i});
        } else {
            found->push_back(i);
        }
    }
    n_groups_ = static_cast<std::int32_t>(groups.size());
    for (const std::vector<std::int32_t>& group : groups) {
        wide_ends_.push_back(std::all_of(group.begin(), group.end(), [&](std::int32_t i) {
            return source_tokens_[at(i)] >= fastest(i) && sink_tokens_[at(i)] >= fastest(i);
        }));
    }
}

TargetFlow::Units TargetFlow::node_units(std::int32_t i, LayerRange range) const {
    return to_units(std::min(capacities_.nodes[at(i)].throughput(range), nic_limit_[at(i)]));
}

std::int32_t TargetFlow::new_vertex() {
    first_.push_back(-1);
    return static_cast<std::int32_t>(first_.size()) - 1;
}

void TargetFlow::add_arc(std::int32_t from, std::int32_t to, Units room, std::int32_t cost) {
    const auto a = static_cast<std::int32_t>(arcs_.size());
    arcs_.push_back({to, first_[at(from)], cost, room});
    arcs_.push_back({from, first_[at(to)], -cost, 0});
    first_[at(from)] = a;
    first_[at(to)] = a + 1;
}

std::int32_t TargetFlow::hub(std::int32_t group, std::int32_t boundary) const {
    const std::int32_t row = flat_ ? 0 : group;  // its hubs serve as the virtual ones
    return row * static_cast<std::int32_t>(boundaries_.size()) + boundary_of_[at(boundary)];
}

void TargetFlow::find_boundaries(std::span<const LayerRange> layers) {
    std::fill(boundary_of_.begin(), boundary_of_.end(), -1);
    boundary_of_.front() = boundary_of_.back() = 0;
    for (const LayerRange& range : layers) {
        if (range.empty()) continue;
        boundary_of_[at(range.begin)] = 0;
        boundary_of_[at(range.end)] = 0;
    }
    boundaries_.clear();
    for (std::int32_t k = 0; k <= n_layers_; ++k) {
        if (boundary_of_[at(k)] < 0) continue;
        boundary_of_[at(k)] = static_cast<std::int32_t>(boundaries_.size());
        boundaries_.push_back(k);
    }
}

// From boundary to boundary without a node: forward at a price, back at half of it or free.
void TargetFlow::add_chains() {
    for (std::size_t b = 0; b + 1 < boundaries_.size(); ++b) {
        const std::int32_t near = boundaries_[b];
        const std::int32_t far = boundaries_[b + 1];
        add_arc(virtual_hub(near), virtual_hub(far), kUnlimitedUnits, kMissingLayer * (far - near));
        add_arc(virtual_hub(far), virtual_hub(near), kUnlimitedUnits,
                partial_ ? 0 : kOverlap * (far - near));
    }
    if (flat_) return;
    for (const std::int32_t k : boundaries_) {
        for (std::int32_t g = 0; g < n_groups_; ++g) {
            add_arc(hub(g, k), virtual_hub(k), kUnlimitedUnits, 0);
            add_arc(virtual_hub(k), hub(g, k), kUnlimitedUnits, kMissingLink);
        }
    }
}

void TargetFlow::add_ends(std::span<const LayerRange> layers) {
    const bool all_wide =
        std::all_of(wide_ends_.begin(), wide_ends_.end(), [](bool w) { return w; });
    if (flat_) {
        source_ = hub(0, 0);
        sink_ = hub(0, n_layers_);
        return;
    }
    source_ = new_vertex();
    sink_ = new_vertex();
    for (std::int32_t g = 0; g < n_groups_; ++g) {
        if (!wide_ends_[at(g)]) continue;
        add_arc(source_, hub(g, 0), kUnlimitedUnits, 0);
        add_arc(hub(g, n_layers_), sink_, kUnlimitedUnits, 0);
    }
    if (all_wide) return;
    add_arc(source_, virtual_hub(0), kUnlimitedUnits, kMissingLink);
    add_arc(virtual_hub(n_layers_), sink_, kUnlimitedUnits, kMissingLink);
    for (std::int32_t i = 0; i < n_nodes_; ++i) {
        if (layers[at(i)].empty() || wide_ends_[at(group_[at(i)])]) continue;
        if (layers[at(i)].begin == 0 && source_tokens_[at(i)] > 0) {
            in_[at(i)] = new_vertex();
            add_arc(source_, in_[at(i)], to_units(source_tokens_[at(i)]), 0);
        }
        if (layers[at(i)].end == n_layers_ && sink_tokens_[at(i)] > 0) {
            out_[at(i)] = new_vertex();
            add_arc(out_[at(i)], sink_, to_units(sink_tokens_[at(i)]), 0);
        }
    }
}

void TargetFlow::add_links(std::span<const LayerRange> layers) {
    for (std::int32_t i = 0; i < n_nodes_; ++i) {
        if (layers[at(i)].empty() || layers[at(i)].end == n_layers_) continue;
        const double* tokens = &link_tokens_[at(i) * at(n_nodes_)];
        for (std::int32_t k = 0; k < n_nodes_; ++k) {
            if (group_[at(i)] == group_[at(k)] || tokens[k] <= 0) continue;
            if (!valid_hop(layers[at(i)], layers[at(k)], partial_)) continue;
            if (out_[at(i)] < 0) out_[at(i)] = new_vertex();
            if (in_[at(k)] < 0) in_[at(k)] = new_vertex();
            add_arc(out_[at(i)], in_[at(k)], to_units(tokens[k]), 0);
        }
    }
}

void TargetFlow::add_nodes(std::span<const LayerRange> layers) {
    for (std::int32_t i = 0; i < n_nodes_; ++i) {
        const LayerRange range = layers[at(i)];
        if (range.empty()) continue;
        std::int32_t from = hub(group_[at(i)], range.begin);
        std::int32_t to = hub(group_[at(i)], range.end);
        const bool entered_late = partial_ && !flat_;
        if (entered_late && in_[at(i)] < 0) in_[at(i)] = new_vertex();
        if (in_[at(i)] >= 0) {
            add_arc(from, in_[at(i)], kUnlimitedUnits, 0);
            from = in_[at(i)];
        }
        if (entered_late) {
            for (std::int32_t k = range.begin + 1; k < range.end; ++k) {
                if (boundary_of_[at(k)] >= 0)
                    add_arc(hub(group_[at(i)], k), in_[at(i)], kUnlimitedUnits, 0);
            }
        }
        if (out_[at(i)] >= 0) {
            add_arc(out_[at(i)], to, kUnlimitedUnits, 0);
            to = out_[at(i)];
        }
        add_arc(from, to, node_units(i, range), 0);
    }
}

void TargetFlow::build(std::span<const LayerRange> layers) {
    find_boundaries(layers);
    arcs_.clear();
    first_.assign(boundaries_.size() * at(rows()), -1);
    std::fill(in_.begin(), in_.end(), -1);
    std::fill(out_.begin(), out_.end(), -1);
    add_chains();
    add_ends(layers);
    if (n_groups_ > 1) add_links(layers);
    add_nodes(layers);
}

// Dial's form of Dijkstra's algorithm: the reduced costs are small integers.
bool TargetFlow::raise_potentials() {
    const std::int32_t far = static_cast<std::int32_t>(buckets_.size());
    std::fill(distance_.begin(), distance_.end(), far);
    distance_[at(from_)] = 0;
    buckets_[0].push_back(from_);
    std::int32_t d = 0;
    for (; d < distance_[at(into_)]; ++d) {
        if (d >= far) return false;
        for (std::size_t q = 0; q < buckets_[at(d)].size(); ++q) {
            const std::int32_t v = buckets_[at(d)][q];
            if (distance_[at(v)] != d) continue;
            for (std::int32_t a = first_[at(v)]; a >= 0; a = arcs_[at(a)].next) {
                const Arc& arc = arcs_[at(a)];
                if (arc.room <= 0) continue;
                const std::int32_t next = d + arc.cost + potential_[at(v)] - potential_[at(arc.to)];
                if (next >= distance_[at(arc.to)] || next >= distance_[at(into_)]) continue;
                distance_[at(arc.to)] = next;
                buckets_[at(next)].push_back(arc.to);
            }
        }
        buckets_[at(d)].clear();
    }
    for (; d < far; ++d) buckets_[at(d)].clear();
    const std::int32_t reached = distance_[at(into_)];
    for (std::size_t v = 0; v < distance_.size(); ++v)
        potential_[v] += std::min(distance_[v], reached);
    return true;
}

TargetFlow::Units TargetFlow::push(std::int32_t vertex, Units limit) {
    if (vertex == into_) return limit;
    seen_[at(vertex)] = 1;
    Units sent = 0;
    for (std::int32_t a = first_[at(vertex)]; a >= 0; a = arcs_[at(a)].next) {
        Arc& arc = arcs_[at(a)];
        if (arc.room <= 0 || seen_[at(arc.to)] != 0) continue;
        if (arc.cost + potential_[at(vertex)] != potential_[at(arc.to)]) continue;
        const Units part = push(arc.to, std::min(limit - sent, arc.room));
        if (part == 0) continue;
        arc.room -= part;
        arcs_[at(a ^ 1)].room += part;
        sent += part;
        if (sent < limit) continue;
        seen_[at(vertex)] = 0;
        break;
    }
    return sent;
}

// What the layers' holders lack together; a bound from below of what the flow misses.
double TargetFlow::coverage_cost(std::span<const LayerRange> layers, double target) {
    coverage_.assign(at(n_layers_) + 1, 0.0);
    for (std::int32_t i = 0; i < n_nodes_; ++i) {
        const LayerRange range = layers[at(i)];
        if (range.empty()) continue;
        const double tokens =
            std::min(capacities_.nodes[at(i)].throughput(range), nic_limit_[at(i)]);
        coverage_[at(range.begin)] += tokens;
        coverage_[at(range.end)] -= tokens;
    }
    double cost = 0;
    double covered = 0;
    for (std::int32_t l = 0; l < n_layers_; ++l) {
        covered += coverage_[at(l)];
        cost += std::max(0.0, 1 - covered / target);
    }
    return cost < kRounding ? 0 : cost;
}

// The boundaries that no range had lie on the chains between those that had one.
void TargetFlow::keep_prices() {
    if (covered_) return;
    const std::int32_t width = n_layers_ + 1;
    prices_.resize(at(rows()) * at(width));
    for (std::int32_t row = rows() - 1; row >= 0; --row) {  // the virtual hubs first
        std::int32_t* price = &prices_[at(row) * at(width)];
        const std::int32_t* base = &prices_[at(rows() - 1) * at(width)];
        for (std::size_t b = 0; b < boundaries_.size(); ++b) {
            const std::int32_t near = boundaries_[b];
            price[near] = final_price(hub(row, near));
            if (b + 1 == boundaries_.size()) break;
            const std::int32_t far = boundaries_[b + 1];
            const std::int32_t end = final_price(hub(row, far));
            for (std::int32_t k = near + 1; k < far; ++k) {
                if (row < rows() - 1) {
                    price[k] = base[k] + kMissingLink;
                } else {
                    price[k] = std::min(price[near] + kMissingLayer * (k - near),
                                        end + (partial_ ? 0 : kOverlap * (far - k)));
                }
            }
        }
    }
    sink_price_ = final_price(sink_);
}

// Prices of the vertices as they were kept; the nodes' own vertices take those of their hubs.
void TargetFlow::fill_prices(std::span<const LayerRange> layers) {
    price_.assign(first_.size(), 0);
    if (prices_.empty()) return;
    const std::int32_t width = n_layers_ + 1;
    for (std::int32_t row = 0; row < rows(); ++row) {
        for (const std::int32_t k : boundaries_)
            price_[at(hub(row, k))] = prices_[at(row * width + k)];
    }
    price_[at(sink_)] = sink_price_;
    for (std::int32_t i = 0; i < n_nodes_; ++i) {
        if (in_[at(i)] >= 0) {
            std::int32_t& price = price_[at(in_[at(i)])];
            price = price_[at(hub(group_[at(i)], layers[at(i)].begin))];
            for (std::int32_t k = layers[at(i)].begin + 1; partial_ && k < layers[at(i)].end; ++k) {
                if (boundary_of_[at(k)] >= 0)
                    price = std::min(price, price_[at(hub(group_[at(i)], k))]);
            }
        }
        if (out_[at(i)] >= 0)
            price_[at(out_[at(i)])] = price_[at(hub(group_[at(i)], layers[at(i)].end))];
    }
}

// Turns the problem into what the kept prices leave to be done: costs become reduced costs, arcs
// that pay are filled, and what that leaves over in some vertices goes to those that lack it.
// Returns the value of the prices; `left` becomes what has to be moved.
TargetFlow::Units TargetFlow::start_from_prices(Units wanted, Units& left) {
    excess_.assign(first_.size(), 0);
    excess_[at(source_)] += wanted;
    excess_[at(sink_)] -= wanted;
    Units value = wanted * (price_[at(sink_)] - price_[at(source_)]);
    for (std::size_t a = 0; a < arcs_.size(); a += 2) {
        Arc& arc = arcs_[a];
        Arc& back = arcs_[a + 1];
        arc.cost += price_[at(back.to)] - price_[at(arc.to)];
        back.cost = -arc.cost;
        if (arc.cost >= 0) continue;
        value += arc.room * arc.cost;
        excess_[at(arc.to)] += arc.room;
        excess_[at(back.to)] -= arc.room;
        back.room = arc.room;
        arc.room = 0;
    }
    const auto n = static_cast<std::int32_t>(first_.size());
    from_ = new_vertex();
    into_ = new_vertex();
    left = 0;
    for (std::int32_t v = 0; v < n; ++v) {
        if (excess_[at(v)] > 0) {
            add_arc(from_, v, excess_[at(v)], 0);
            left += excess_[at(v)];
        } else if (excess_[at(v)] < 0) {
            add_arc(v, into_, -excess_[at(v)], 0);
        }
    }
    return value;
}

double TargetFlow::missing(std::span<const LayerRange> layers, double target, double give_up) {
    CHECK(layers.size() == at(n_nodes_) && target > 0);
    const double uncovered = coverage_cost(layers, target);
    if (covered_ || uncovered > give_up) return uncovered;
    const Units wanted = to_units(target);
    CHECK(wanted > 0);
    build(layers);
    fill_prices(layers);
    const double scale = 1.0 / (static_cast<double>(kMissingLayer) * static_cast<double>(wanted));
    Units left = 0;
    Units cost = start_from_prices(wanted, left);
    potential_.assign(first_.size(), 0);
    distance_.resize(first_.size());
    seen_.resize(first_.size());
    while (true) {
        const double least = static_cast<double>(cost + left * potential_[at(into_)]) * scale;
        if (least > give_up) return least;
        while (left > 0) {
            std::fill(seen_.begin(), seen_.end(), std::uint8_t{0});
            const Units sent = push(from_, left);
            if (sent == 0) break;
            left -= sent;
            cost += sent * potential_[at(into_)];
        }
        if (left == 0) return static_cast<double>(cost) * scale;
        CHECK(raise_potentials());
    }
}

}  // namespace helix::plan
