#include "spec/cluster_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "spec/text_file.h"

namespace helix::spec {
namespace {

bool ends_with(const std::string& path, std::string_view ending) {
    return path.size() > ending.size() &&
           path.compare(path.size() - ending.size(), ending.size(), ending) == 0;
}

base::Error unknown_ending(const std::string& path) {
    return base::invalid(path + ": a cluster file's name must end in .json or .toml");
}

bool sensible(double value) {
    return std::isfinite(value) && value >= 0;
}

base::Status check_nodes(const ClusterSpec& cluster, const std::string& file) {
    std::set<std::string> names;
    for (const NodeSpec& node : cluster.nodes) {
        const auto wrong = [&](std::string_view what) {
            return base::invalid(fmt::format("{}: node \"{}\": {}", file, node.name, what));
        };
        if (node.name.empty() || node.name == "coordinator")
            return wrong("is not allowed as a name");
        if (!names.insert(node.name).second) return wrong("the name appears twice");
        if (node.memory_bytes <= 0) return wrong("memory must be above 0");
        const double values[] = {node.nic_in_bytes_per_s, node.nic_out_bytes_per_s,
                                 node.decode_s_per_layer, node.decode_batch_s_per_layer,
                                 node.prefill_s_per_token_layer};
        if (!std::all_of(std::begin(values), std::end(values), sensible)) {
            return wrong("network speeds and measured times must not be negative");
        }
    }
    return base::Ok{};
}

base::Status check_trunks(const ClusterSpec& cluster, const std::string& file) {
    std::set<std::string> regions = {cluster.coordinator_region};
    for (const NodeSpec& node : cluster.nodes) regions.insert(node.region);
    regions.erase("");
    std::set<std::pair<std::string, std::string>> seen;
    for (const TrunkSpec& trunk : cluster.trunks) {
        const auto wrong = [&](std::string_view what) {
            return base::invalid(fmt::format("{}: trunk \"{}\" -> \"{}\": {}", file,
                                             trunk.from_region, trunk.to_region, what));
        };
        for (const std::string& region : {trunk.from_region, trunk.to_region}) {
            if (!regions.contains(region))
                return wrong(fmt::format("no machine is in region \"{}\"", region));
        }
        if (trunk.from_region == trunk.to_region) return wrong("joins a region to itself");
        if (!(trunk.bandwidth_bytes_per_s > 0) || !std::isfinite(trunk.bandwidth_bytes_per_s)) {
            return wrong("bandwidth must be above 0");
        }
        if (!sensible(trunk.latency_s)) return wrong("latency must not be negative");
        if (!seen.emplace(trunk.from_region, trunk.to_region).second) return wrong("appears twice");
    }
    return base::Ok{};
}

}  // namespace

base::Status finish_cluster(ClusterSpec& cluster, const std::string& file) {
    if (cluster.nodes.empty()) return base::invalid(file + ": the cluster has no machines");
    TRY_VOID(check_nodes(cluster, file));
    if (!sensible(cluster.coordinator_nic_in_bytes_per_s) ||
        !sensible(cluster.coordinator_nic_out_bytes_per_s)) {
        return base::invalid(file + ": the coordinator's network speed must not be negative");
    }
    TRY_VOID(check_trunks(cluster, file));
    std::sort(
        cluster.trunks.begin(), cluster.trunks.end(), [](const TrunkSpec& a, const TrunkSpec& b) {
            return std::tie(a.from_region, a.to_region) < std::tie(b.from_region, b.to_region);
        });
    std::sort(cluster.links.begin(), cluster.links.end(), [](const LinkSpec& a, const LinkSpec& b) {
        return std::pair(a.from, a.to) < std::pair(b.from, b.to);
    });
    const auto n = static_cast<std::int32_t>(cluster.nodes.size());
    for (std::size_t l = 0; l < cluster.links.size(); ++l) {
        const LinkSpec& link = cluster.links[l];
        if (link.from < kCoordinator || link.from >= n || link.to < kCoordinator || link.to >= n) {
            return base::invalid(fmt::format("{}: link {} -> {}: the nodes are 0 to {}", file,
                                             link.from, link.to, n - 1));
        }
        const auto wrong = [&](std::string_view what) {
            return base::invalid(fmt::format("{}: link {} -> {}: {}", file,
                                             end_name(cluster, link.from),
                                             end_name(cluster, link.to), what));
        };
        if (link.from == link.to) return wrong("leads from a machine to itself");
        if (!(link.bandwidth_bytes_per_s > 0) || !std::isfinite(link.bandwidth_bytes_per_s)) {
            return wrong("bandwidth must be above 0");
        }
        if (!sensible(link.latency_s)) return wrong("latency must not be negative");
        if (l > 0 && cluster.links[l - 1].from == link.from && cluster.links[l - 1].to == link.to) {
            return wrong("appears twice");
        }
    }
    return base::Ok{};
}

base::Result<ClusterSpec> read_cluster_file(const std::string& path) {
    const bool json = ends_with(path, ".json");
    if (!json && !ends_with(path, ".toml")) return unknown_ending(path);
    TRY(const std::string text, read_text_file(path));
    return json ? parse_cluster_json(text, path) : parse_cluster_toml(text, path);
}

base::Status write_cluster_file(const std::string& path, const ClusterSpec& cluster) {
    const bool json = ends_with(path, ".json");
    if (!json && !ends_with(path, ".toml")) return unknown_ending(path);
    return write_text_file(path, json ? cluster_to_json(cluster) : cluster_to_toml(cluster));
}

}  // namespace helix::spec
