#include "plan/change/placement_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "spec/units.h"

namespace helix::plan {
namespace {

using spec::LayerRange;

bool shares(LayerRange held, const NodeMove& move) {
    const LayerRange common = spec::intersect(held, move.after);
    for (std::int32_t l = common.begin; l < common.end; ++l) {
        if (!move.before.contains(l)) return true;
    }
    return false;
}

// The fastest link into each node that loads, from somebody who has what it needs.
std::vector<double> network_speeds(const spec::ClusterSpec& cluster, const spec::Placement& before,
                                   const std::vector<const NodeMove*>& move_of) {
    std::vector<double> speeds(cluster.nodes.size(), 0.0);
    for (const spec::LinkSpec& link : cluster.links) {
        if (link.to == spec::kCoordinator) continue;
        const auto to = static_cast<std::size_t>(link.to);
        if (move_of[to] == nullptr || link.bandwidth_bytes_per_s <= speeds[to]) continue;
        const bool has = link.from == spec::kCoordinator ||
                         shares(before.layers[static_cast<std::size_t>(link.from)], *move_of[to]);
        if (has) speeds[to] = link.bandwidth_bytes_per_s;
    }
    for (std::size_t i = 0; i < speeds.size(); ++i) {
        const double nic = cluster.nodes[i].nic_in_bytes_per_s;
        if (nic > 0) speeds[i] = std::min(speeds[i], nic);
    }
    return speeds;
}

std::string layers_text(LayerRange range) {
    if (range.empty()) return "nothing";
    if (range.size() == 1) return fmt::format("layer {}", range.begin);
    return fmt::format("layers {}-{}", range.begin, range.end - 1);
}

}  // namespace

std::int64_t bytes_to_load(const spec::ModelSpec& model, LayerRange before, LayerRange after) {
    const LayerRange kept = spec::intersect(before, after);
    const std::int64_t bytes = spec::stored_bytes(model, after) - spec::stored_bytes(model, kept);
    // What everybody holds stays whatever the layers are.
    const bool others = !before.empty() && !after.empty() && kept.empty();
    return others ? bytes - model.common_bytes : bytes;
}

PlacementDiff placement_diff(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                             const spec::Placement& before, const spec::Placement& after,
                             double disk_bytes_per_s) {
    const std::size_t n = cluster.nodes.size();
    CHECK(before.layers.size() == n && after.layers.size() == n);
    PlacementDiff diff;
    for (std::size_t i = 0; i < n; ++i) {
        const LayerRange from = before.layers[i];
        const LayerRange to = after.layers[i];
        if (from == to || (from.empty() && to.empty())) continue;
        const std::int32_t kept = std::max(0, spec::intersect(from, to).size());
        diff.moves.push_back({.node = static_cast<std::int32_t>(i),
                              .before = from,
                              .after = to,
                              .loaded = std::max(0, to.size()) - kept,
                              .dropped = std::max(0, from.size()) - kept,
                              .bytes = bytes_to_load(model, from, to),
                              .seconds = 0});
    }
    std::vector<const NodeMove*> move_of(n, nullptr);
    for (const NodeMove& move : diff.moves) {
        if (move.bytes > 0) move_of[static_cast<std::size_t>(move.node)] = &move;
    }
    const std::vector<double> network = network_speeds(cluster, before, move_of);
    for (NodeMove& move : diff.moves) {
        const double speed =
            std::max(disk_bytes_per_s, network[static_cast<std::size_t>(move.node)]);
        if (speed > 0) move.seconds = static_cast<double>(move.bytes) / speed;
        diff.bytes += move.bytes;
        diff.kv_layers += move.dropped;
        diff.seconds = std::max(diff.seconds, move.seconds);
    }
    return diff;
}

std::string describe_diff(const spec::ClusterSpec& cluster, const PlacementDiff& diff) {
    if (diff.moves.empty()) return "nothing moves\n";
    std::size_t width = 0;
    for (const NodeMove& move : diff.moves) {
        width = std::max(width, cluster.nodes[static_cast<std::size_t>(move.node)].name.size());
    }
    std::string text;
    for (const NodeMove& move : diff.moves) {
        text +=
            fmt::format("{:<{}}  {} -> {}", cluster.nodes[static_cast<std::size_t>(move.node)].name,
                        width, layers_text(move.before), layers_text(move.after));
        if (move.loaded > 0) {
            text += fmt::format("  loads {} ({}, {})", move.loaded, spec::format_bytes(move.bytes),
                                spec::format_duration(move.seconds));
        }
        if (move.dropped > 0)
            text += fmt::format("{} drops {}", move.loaded > 0 ? "," : " ", move.dropped);
        text += "\n";
    }
    return text + fmt::format("in all {} to load, {} side by side; KV of {} layers lost\n",
                              spec::format_bytes(diff.bytes), spec::format_duration(diff.seconds),
                              diff.kv_layers);
}

}  // namespace helix::plan
