#include "sim/helix_network.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace helix::sim {

std::int32_t HelixNetwork::add_server(double bytes_per_s) {
    servers_.push_back({bytes_per_s > 0 ? 1 / bytes_per_s : 0, {}});
    return static_cast<std::int32_t>(servers_.size()) - 1;
}

HelixNetwork::HelixNetwork(const spec::ClusterSpec& cluster)
    : n_vertices_(cluster.nodes.size() + 1), pairs_(n_vertices_ * n_vertices_) {
    nic_out_.push_back(add_server(cluster.coordinator_nic_out_bytes_per_s));
    nic_in_.push_back(add_server(cluster.coordinator_nic_in_bytes_per_s));
    for (const spec::NodeSpec& node : cluster.nodes) {
        nic_out_.push_back(add_server(node.nic_out_bytes_per_s));
        nic_in_.push_back(add_server(node.nic_in_bytes_per_s));
    }
    std::map<std::pair<std::string, std::string>, std::int32_t> trunks;
    for (const spec::TrunkSpec& trunk : cluster.trunks) {
        trunks[{trunk.from_region, trunk.to_region}] = add_server(trunk.bandwidth_bytes_per_s);
    }
    const auto region = [&](std::int32_t node) -> const std::string& {
        return node == spec::kCoordinator ? cluster.coordinator_region
                                          : cluster.nodes[static_cast<std::size_t>(node)].region;
    };
    for (const spec::LinkSpec& link : cluster.links) {
        Pair& pair = pairs_[vertex(link.from) * n_vertices_ + vertex(link.to)];
        pair.link = add_server(link.bandwidth_bytes_per_s);
        pair.latency = base::from_seconds(link.latency_s);
        const auto trunk = trunks.find({region(link.from), region(link.to)});
        if (trunk != trunks.end()) pair.trunk = trunk->second;
    }
}

Passage HelixNetwork::send(std::int32_t from, std::int32_t to, double bytes, base::TimePoint now) {
    const Pair& route = pair(from, to);
    if (route.link < 0) return {now, now, now};
    Passage passage{now, now, now};
    for (const std::int32_t s :
         {nic_out_[vertex(from)], route.link, route.trunk, nic_in_[vertex(to)]}) {
        if (s < 0) continue;
        Server& server = servers_[static_cast<std::size_t>(s)];
        const base::TimePoint begin = std::max(now, server.free);
        if (s == route.link) passage.begin = begin;
        server.free = begin + base::from_seconds(bytes * server.s_per_byte);
        passage.end = std::max(passage.end, server.free);
    }
    passage.arrives = passage.end + route.latency;
    return passage;
}

}  // namespace helix::sim
