#include "plan/problem/machine_name.h"

#include <fmt/format.h>

#include <vector>

namespace helix::plan {

std::string machine_name(const spec::ClusterSpec& cluster, std::size_t node) {
    const std::string& host = cluster.nodes[node].host;
    if (host.empty()) return cluster.nodes[node].name;
    std::vector<std::string> names;
    for (const spec::NodeSpec& other : cluster.nodes) {
        if (other.host == host) names.push_back(other.name);
    }
    if (names.size() == 1) return names[0];
    if (names.size() == 2) return names[0] + " and " + names[1];
    return fmt::format("{}, {} and {} more", names[0], names[1], names.size() - 2);
}

}  // namespace helix::plan
