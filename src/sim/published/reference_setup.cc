#include "sim/published/reference_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "spec/json_place.h"
#include "spec/text_file.h"

namespace helix::sim {
namespace {

constexpr double kDiskBytesPerS = 1e9;  // the published simulator loads models at this rate
constexpr double kPromptTokensPerRequest = 2048;
constexpr double kContextPerSequence = 1000;

double nic_or_unbound(double bytes_per_s) {
    return bytes_per_s > 0 ? bytes_per_s : std::numeric_limits<double>::infinity();
}

// Everything but nodes and links.
base::Result<ReferenceSetup> bare_setup(const spec::ClusterSpec& cluster,
                                        const spec::ProfileTables& tables) {
    TRY_VOID(tables.check(cluster));
    ReferenceSetup setup;
    setup.n_layers = tables.model().n_layers;
    setup.token_bytes = static_cast<double>(tables.model().token_bytes);
    setup.activation_bytes = static_cast<double>(tables.model().activation_bytes_per_token);
    setup.n_cluster_nodes = cluster.nodes.size();
    setup.coordinator_nic_in_bytes_per_s = nic_or_unbound(cluster.coordinator_nic_in_bytes_per_s);
    setup.coordinator_nic_out_bytes_per_s = nic_or_unbound(cluster.coordinator_nic_out_bytes_per_s);
    for (const auto& [type, machine] : tables.machines()) {
        setup.machines.push_back({machine.prompt_s, machine.decode_s});
    }
    return setup;
}

std::int32_t machine_index(const spec::ProfileTables& tables, const std::string& type) {
    const auto found = tables.machines().find(type);
    return static_cast<std::int32_t>(std::distance(tables.machines().begin(), found));
}

ReferenceNode bare_node(const spec::ClusterSpec& cluster, const spec::ProfileTables& tables,
                        std::size_t index, spec::LayerRange layers) {
    const spec::NodeSpec& node = cluster.nodes[index];
    ReferenceNode out;
    out.node = static_cast<std::int32_t>(index);
    out.layers = layers;
    out.machine = machine_index(tables, node.type);
    out.nic_in_bytes_per_s = nic_or_unbound(node.nic_in_bytes_per_s);
    out.nic_out_bytes_per_s = nic_or_unbound(node.nic_out_bytes_per_s);
    return out;
}

base::Result<ReferenceNode> table_node(const spec::ClusterSpec& cluster,
                                       const spec::ProfileTables& tables, std::size_t index,
                                       spec::LayerRange layers, bool beyond_tables) {
    const spec::NodeSpec& node = cluster.nodes[index];
    const spec::ProfileTables::Machine& machine = tables.machines().at(node.type);
    if (layers.size() > machine.max_layers && !beyond_tables) {
        return base::invalid(fmt::format("node {} ({}): holds {} layers, but its tables end at {}",
                                         node.name, node.type, layers.size(), machine.max_layers));
    }
    ReferenceNode out = bare_node(cluster, tables, index, layers);
    const auto j = static_cast<std::size_t>(std::min(layers.size(), machine.max_layers));
    const spec::ProfileTables::HeldLayers& held = machine.held[j];
    out.kv_capacity = machine.kv_token_layers(layers.size());
    out.prompt_max_tokens = std::llround(held.prompt_max_tokens);
    out.prompt_max_requests =
        std::max(1, static_cast<std::int32_t>(held.prompt_max_tokens / kPromptTokensPerRequest));
    out.decode_max_sequences = static_cast<std::int32_t>(held.decode_max_tokens);
    out.decode_max_context = std::llround(held.decode_max_tokens * kContextPerSequence);
    return out;
}

// Layers are loaded from disk before anything starts, all nodes at once.
double start_time(const ReferenceSetup& setup, const spec::ProfileTables& tables) {
    double longest = 0;
    for (const ReferenceNode& node : setup.nodes) {
        const double bytes = static_cast<double>(tables.model().layer_bytes) * node.layers.size();
        longest = std::max(longest, bytes / kDiskBytesPerS);
    }
    return std::ceil(longest) + 1;
}

// Coordinator links must meet the model's ends and the others continue or overlap.
bool joins(const ReferenceSetup& setup, std::int32_t from, std::int32_t to) {
    const auto layers = [&](std::int32_t i) {
        return setup.nodes[static_cast<std::size_t>(i)].layers;
    };
    if (from == to) return false;
    if (from == spec::kCoordinator) return layers(to).begin == 0;
    if (to == spec::kCoordinator) return layers(from).end == setup.n_layers;
    return layers(to).begin <= layers(from).end && layers(from).end < layers(to).end;
}

using Ends = std::pair<std::int32_t, std::int32_t>;

// links: of the cluster, by (from, to) in its own numbers.
base::Status add_links(const spec::ClusterSpec& cluster, const std::vector<Ends>& wanted,
                       const std::vector<spec::LinkFlow>& flows, ReferenceSetup& setup) {
    std::map<Ends, const spec::LinkSpec*> links;
    for (const spec::LinkSpec& link : cluster.links) links[{link.from, link.to}] = &link;
    std::map<Ends, double> flow_of;
    for (const spec::LinkFlow& flow : flows) flow_of[{flow.from, flow.to}] = flow.tokens_per_s;
    std::map<std::int32_t, std::int32_t> slot = {{spec::kCoordinator, spec::kCoordinator}};
    for (std::size_t i = 0; i < setup.nodes.size(); ++i) {
        slot[setup.nodes[i].node] = static_cast<std::int32_t>(i);
    }
    std::vector<Ends> ends = wanted;
    if (ends.empty()) {
        for (const auto& [pair, link] : links) {
            if (!slot.contains(pair.first) || !slot.contains(pair.second)) continue;
            if (joins(setup, slot[pair.first], slot[pair.second])) ends.push_back(pair);
        }
    }
    for (const Ends& pair : ends) {
        const auto found = links.find(pair);
        if (found == links.end()) {
            return base::invalid(fmt::format("{} -> {}: the cluster has no such link",
                                             spec::end_name(cluster, pair.first),
                                             spec::end_name(cluster, pair.second)));
        }
        if (!slot.contains(pair.first) || !slot.contains(pair.second) ||
            !joins(setup, slot[pair.first], slot[pair.second])) {
            return base::invalid(fmt::format("{} -> {}: their layers do not follow each other",
                                             spec::end_name(cluster, pair.first),
                                             spec::end_name(cluster, pair.second)));
        }
        const auto flow = flow_of.find(pair);
        setup.links.push_back({slot[pair.first], slot[pair.second], found->second->latency_s,
                               found->second->bandwidth_bytes_per_s,
                               flow == flow_of.end() ? 0 : flow->second});
    }
    return base::Ok{};
}

base::Result<ReferenceNode> replay_node(const spec::JsonPlace& place,
                                        const spec::ClusterSpec& cluster,
                                        const spec::ProfileTables& tables) {
    TRY(const spec::JsonPlace id_place, place.member("id"));
    TRY(const std::int32_t id, id_place.index(static_cast<std::int64_t>(cluster.nodes.size())));
    TRY(const spec::JsonPlace range, place.member("layers"));
    TRY(const std::size_t n_ends, range.array_size());
    if (n_ends != 2) return range.error("[start, end)");
    TRY(const std::int64_t begin, range.element(0).integer());
    TRY(const std::int64_t end, range.element(1).integer());
    if (begin < 0 || begin >= end || end > tables.model().n_layers) {
        return range.error(
            fmt::format("[start, end) with 0 <= start < end <= {}", tables.model().n_layers));
    }
    ReferenceNode node =
        bare_node(cluster, tables, static_cast<std::size_t>(id),
                  {static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end)});
    const auto limit = [&](const char* key) -> base::Result<std::int64_t> {
        TRY(const spec::JsonPlace member, place.member(key));
        TRY(const std::int64_t value, member.integer());
        if (value < 1) return member.error("a whole number above 0");
        return value;
    };
    TRY(node.kv_capacity, limit("kv_capacity_token_layers"));
    TRY(const std::int64_t requests, limit("prompt_max_requests"));
    node.prompt_max_requests = static_cast<std::int32_t>(std::min<std::int64_t>(requests, 1 << 20));
    TRY(node.prompt_max_tokens, limit("prompt_max_tokens"));
    TRY(node.decode_max_context, limit("decode_max_context"));
    TRY(const std::int64_t sequences, limit("decode_max_tokens"));
    node.decode_max_sequences =
        static_cast<std::int32_t>(std::min<std::int64_t>(sequences, 1 << 20));
    return node;
}

base::Result<ReferenceLink> replay_link(const spec::JsonPlace& place,
                                        const std::map<std::int32_t, std::int32_t>& slot) {
    ReferenceLink link;
    const auto end = [&](const char* key) -> base::Result<std::int32_t> {
        TRY(const spec::JsonPlace member, place.member(key));
        if (member.value() == "coordinator") return spec::kCoordinator;
        if (!member.value().is_number()) return member.error("a node id or \"coordinator\"");
        TRY(const std::int64_t id, member.integer());
        const auto found = slot.find(static_cast<std::int32_t>(id));
        if (found == slot.end()) return member.error("the id of a node listed under nodes");
        return found->second;
    };
    const auto number = [&](const char* key, bool zero) -> base::Result<double> {
        TRY(const spec::JsonPlace member, place.member(key));
        TRY(const double value, member.number());
        if (value < 0 || (value == 0 && !zero)) return member.error("a number above 0");
        return value;
    };
    TRY(link.from, end("from"));
    TRY(link.to, end("to"));
    TRY(link.latency_s, number("latency_s", true));
    TRY(link.bandwidth_bytes_per_s, number("bandwidth_bytes_per_s", false));
    TRY(link.flow_tokens_per_s, number("flow_tokens_per_s", true));
    return link;
}

}  // namespace

base::Result<ReferenceSetup> reference_setup(const spec::ClusterSpec& cluster,
                                             const spec::ProfileTables& tables,
                                             const spec::Placement& placement,
                                             const std::vector<Ends>& links,
                                             const std::vector<spec::LinkFlow>& flows,
                                             bool beyond_tables) {
    TRY(ReferenceSetup setup, bare_setup(cluster, tables));
    if (placement.layers.size() > cluster.nodes.size()) {
        return base::invalid(
            fmt::format("the placement names node {}, but the cluster has {} nodes",
                        placement.layers.size() - 1, cluster.nodes.size()));
    }
    for (std::size_t i = 0; i < placement.layers.size(); ++i) {
        const spec::LayerRange layers = placement.layers[i];
        if (layers.empty()) continue;
        if (layers.begin < 0 || layers.end > setup.n_layers) {
            return base::invalid(fmt::format("node {}: layers [{}, {}) are not in [0, {})",
                                             cluster.nodes[i].name, layers.begin, layers.end,
                                             setup.n_layers));
        }
        TRY(ReferenceNode node, table_node(cluster, tables, i, layers, beyond_tables));
        setup.nodes.push_back(node);
    }
    setup.start_s = start_time(setup, tables);
    TRY_VOID(add_links(cluster, links, flows, setup));
    return setup;
}

base::Result<ReferenceSetup> read_replay_setup(const std::string& path,
                                               const spec::ClusterSpec& cluster,
                                               const spec::ProfileTables& tables) {
    TRY(const std::string text, spec::read_text_file(path));
    TRY(const nlohmann::json document, spec::parse_json(text, path));
    const spec::JsonPlace root(document, path);
    TRY(ReferenceSetup setup, bare_setup(cluster, tables));
    TRY(const spec::JsonPlace start, root.member("start_time_s"));
    TRY(setup.start_s, start.number());
    TRY(setup.max_flow_tokens_per_s, root.number_or("max_flow_tokens_per_s", 0));
    TRY(const spec::JsonPlace nodes, root.member("nodes"));
    TRY(const std::size_t n_nodes, nodes.array_size());
    std::map<std::int32_t, std::int32_t> slot;
    for (std::size_t i = 0; i < n_nodes; ++i) {
        TRY(ReferenceNode node, replay_node(nodes.element(i), cluster, tables));
        if (!slot.emplace(node.node, static_cast<std::int32_t>(i)).second) {
            return nodes.element(i).complaint("this node was listed before");
        }
        setup.nodes.push_back(node);
    }
    TRY(const spec::JsonPlace links, root.member("links"));
    TRY(const std::size_t n_links, links.array_size());
    for (std::size_t i = 0; i < n_links; ++i) {
        TRY(const ReferenceLink link, replay_link(links.element(i), slot));
        if (!joins(setup, link.from, link.to)) {
            return links.element(i).complaint("the layers of its ends do not follow each other");
        }
        setup.links.push_back(link);
    }
    return setup;
}

}  // namespace helix::sim
