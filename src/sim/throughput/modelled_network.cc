#include "sim/throughput/modelled_network.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace helix::sim {

ModelledNetwork::ModelledNetwork(const spec::ClusterSpec& cluster)
    : n_vertices_(cluster.nodes.size() + 1),
      pairs_(n_vertices_ * n_vertices_),
      used_(cluster.nodes.size()) {
    const auto server = [](double bytes_per_s) {
        return Server{bytes_per_s > 0 ? 1 / bytes_per_s : 0, {}};
    };
    nic_out_.push_back(server(cluster.coordinator_nic_out_bytes_per_s));
    nic_in_.push_back(server(cluster.coordinator_nic_in_bytes_per_s));
    for (const spec::NodeSpec& node : cluster.nodes) {
        nic_out_.push_back(server(node.nic_out_bytes_per_s));
        nic_in_.push_back(server(node.nic_in_bytes_per_s));
    }
    std::map<std::pair<std::string, std::string>, std::int32_t> trunks;
    for (const spec::TrunkSpec& trunk : cluster.trunks) {
        trunks[{trunk.from_region, trunk.to_region}] = static_cast<std::int32_t>(trunks_.size());
        trunks_.push_back(server(trunk.bandwidth_bytes_per_s));
    }
    const auto region = [&](std::int32_t node) -> const std::string& {
        return node == spec::kCoordinator ? cluster.coordinator_region
                                          : cluster.nodes[static_cast<std::size_t>(node)].region;
    };
    for (const spec::LinkSpec& link : cluster.links) {
        Pair& pair = pairs_[index(link.from, link.to)];
        pair.link = server(link.bandwidth_bytes_per_s);
        pair.latency = base::from_seconds(link.latency_s);
        const auto trunk = trunks.find({region(link.from), region(link.to)});
        pair.trunk = trunk == trunks.end() ? kNoTrunk : trunk->second;
    }
}

ModelledNetwork::Pair& ModelledNetwork::used_pair(std::int32_t from, std::int32_t to) {
    if (from == spec::kCoordinator) return pairs_[index(from, to)];
    std::vector<Used>& used = used_[static_cast<std::size_t>(from)];
    for (Used& one : used) {
        if (one.to == to) return one.pair;
    }
    if (used.size() == kFewUsed) return pairs_[index(from, to)];
    return used.emplace_back(Used{to, pairs_[index(from, to)]}).pair;
}

Passage ModelledNetwork::send(std::int32_t from, std::int32_t to, double bytes,
                              base::TimePoint now) {
    Pair& route = used_pair(from, to);
    if (route.trunk == kNoLink) return {now, now, now, now};
    Passage passage{now, now, now, now};
    const auto pass = [&](Server& server) {
        const base::TimePoint begin = std::max(now, server.free);
        server.free = begin + base::from_seconds(bytes * server.s_per_byte);
        passage.end = std::max(passage.end, server.free);
        return begin;
    };
    pass(nic_out_[vertex(from)]);
    passage.begin = pass(route.link);
    passage.left = route.link.free;
    if (route.trunk != kNoTrunk) pass(trunks_[static_cast<std::size_t>(route.trunk)]);
    pass(nic_in_[vertex(to)]);
    passage.arrives = passage.end + route.latency;
    return passage;
}

}  // namespace helix::sim
