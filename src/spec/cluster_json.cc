#include <fmt/format.h>

#include <cmath>
#include <map>

#include "spec/catalogue.h"
#include "spec/cluster_file.h"
#include "spec/json_place.h"

namespace helix::spec {
namespace {

using nlohmann::json;

struct JsonMachineType {
    double memory_bytes = 0;
    double nic_in = 0;
    double nic_out = 0;
};

base::Result<std::map<std::string, JsonMachineType>> read_types(const JsonPlace& root) {
    std::map<std::string, JsonMachineType> types;
    if (!root.has("machine_types")) return types;
    const JsonPlace place = root.child("machine_types");
    TRY_VOID(place.expect_object());
    for (const auto& [name, unused] : place.value().items()) {
        const JsonPlace type = place.child(name);
        JsonMachineType read;
        TRY(read.memory_bytes, type.number_or("vram_bytes", 0));
        TRY(read.nic_in, type.number_or("nic_in_bytes_per_s", 0));
        TRY(read.nic_out, type.number_or("nic_out_bytes_per_s", 0));
        types.emplace(name, read);
    }
    return types;
}

base::Result<std::int64_t> whole_bytes(const JsonPlace& place, double bytes) {
    if (!(bytes > 0) || bytes > 9e15)
        return place.complaint("memory must be above 0 and below 9e15 bytes");
    return static_cast<std::int64_t>(std::llround(bytes));
}

// A region is text, or a number as in the published clusters.
base::Result<std::string> read_region(const JsonPlace& place) {
    if (!place.value().is_number_integer()) return place.text();
    return std::to_string(place.value().get<std::int64_t>());
}

// Reads memory and NICs: the node's own, else those of its type in the file, else the catalogue's.
base::Status read_machine(const JsonPlace& place, JsonMachineType type, NodeSpec& node) {
    double memory = type.memory_bytes;
    if (place.has("vram_gb")) {
        TRY(const double gigabytes, place.child("vram_gb").number());
        memory = gigabytes * 1e9;
    }
    TRY(memory, place.number_or("memory_bytes", memory));
    if (memory == 0 && !node.type.empty() && !place.has("memory_bytes")) {
        const auto known = find_machine_type(node.type);
        if (!known.ok())
            return place.complaint("memory is not given, and " + known.error().message);
        memory = static_cast<double>(known->memory_bytes);
        if (type.nic_in == 0) type.nic_in = known->nic_bytes_per_s;
        if (type.nic_out == 0) type.nic_out = known->nic_bytes_per_s;
    }
    TRY(node.memory_bytes, whole_bytes(place, memory));
    TRY(node.nic_in_bytes_per_s, place.number_or("nic_in_bytes_per_s", type.nic_in));
    TRY(node.nic_out_bytes_per_s, place.number_or("nic_out_bytes_per_s", type.nic_out));
    return base::Ok{};
}

base::Result<NodeSpec> read_node(const JsonPlace& place, std::size_t index,
                                 const std::map<std::string, JsonMachineType>& types) {
    TRY(const JsonPlace id_place, place.member("id"));
    TRY(const std::int64_t id, id_place.integer());
    if (id != static_cast<std::int64_t>(index)) {
        return id_place.error(fmt::format("{} (ids count from 0 in file order)", index));
    }
    NodeSpec node;
    TRY(node.name, place.text_or("name", fmt::format("node{}", id)));
    TRY(node.type, place.text_or("type", ""));
    TRY(node.host, place.text_or("host", ""));
    TRY(node.device, place.text_or("device", ""));
    TRY(node.core_share, place.number_or("core_share", 1));
    if (node.core_share <= 0 || node.core_share > 1) {
        return place.child("core_share").error("above 0, at most 1");
    }
    TRY(const std::string role, place.text_or("role", "both"));
    const std::optional<NodeRole> known_role = parse_role(role);
    if (!known_role) return place.child("role").error(kRoleNames);
    node.role = *known_role;
    JsonMachineType type;
    if (!types.empty()) {
        const auto found = types.find(node.type);
        if (found == types.end())
            return place.complaint(fmt::format("type \"{}\" is not in machine_types", node.type));
        type = found->second;
    }
    if (place.has("region")) {
        TRY(node.region, read_region(place.child("region")));
    }
    TRY_VOID(read_machine(place, type, node));
    TRY(node.decode_s_per_layer, place.number_or("decode_s_per_layer", 0));
    TRY(node.decode_batch_s_per_layer, place.number_or("decode_batch_s_per_layer", 0));
    TRY(node.prefill_s_per_token_layer, place.number_or("prefill_s_per_token_layer", 0));
    return node;
}

// Reads bandwidth and latency; the caller sets the ends.
base::Result<LinkSpec> read_link(const JsonPlace& place) {
    LinkSpec link;
    TRY(const JsonPlace bandwidth, place.member("bandwidth_bytes_per_s"));
    TRY(link.bandwidth_bytes_per_s, bandwidth.number());
    if (!(link.bandwidth_bytes_per_s > 0)) return bandwidth.error("a number above 0");
    TRY(const JsonPlace latency, place.member("latency_ms"));
    TRY(const double latency_ms, latency.number());
    if (latency_ms < 0) return latency.error("a number not below 0");
    link.latency_s = latency_ms / 1e3;
    return link;
}

base::Result<std::int32_t> read_link_end(const JsonPlace& place, const char* key,
                                         std::size_t n_nodes) {
    TRY(const JsonPlace end, place.member(key));
    if (end.value() == "coordinator") return kCoordinator;
    return end.index(static_cast<std::int64_t>(n_nodes));
}

base::Status read_coordinator_links(const JsonPlace& root, ClusterSpec& cluster) {
    if (!root.has("coordinator_links")) return base::Ok{};
    const JsonPlace links = root.child("coordinator_links");
    TRY(const std::size_t n_links, links.array_size());
    for (std::size_t l = 0; l < n_links; ++l) {
        const JsonPlace place = links.element(l);
        TRY(LinkSpec link, read_link(place));
        TRY(const std::int32_t node, read_link_end(place, "node", cluster.nodes.size()));
        TRY(const JsonPlace direction, place.member("direction"));
        if (direction.value() == "coordinator_to_node") {
            link.to = node;
        } else if (direction.value() == "node_to_coordinator") {
            link.from = node;
        } else {
            return direction.error("\"coordinator_to_node\" or \"node_to_coordinator\"");
        }
        cluster.links.push_back(link);
    }
    return base::Ok{};
}

base::Status read_links(const JsonPlace& root, const char* list, const char* from, const char* to,
                        bool both_ways, ClusterSpec& cluster) {
    if (!root.has(list)) return base::Ok{};
    const JsonPlace links = root.child(list);
    TRY(const std::size_t n_links, links.array_size());
    for (std::size_t l = 0; l < n_links; ++l) {
        const JsonPlace place = links.element(l);
        TRY(LinkSpec link, read_link(place));
        TRY(link.from, read_link_end(place, from, cluster.nodes.size()));
        TRY(link.to, read_link_end(place, to, cluster.nodes.size()));
        cluster.links.push_back(link);
        std::swap(link.from, link.to);
        if (both_ways) cluster.links.push_back(link);
    }
    return base::Ok{};
}

base::Status read_trunks(const JsonPlace& root, ClusterSpec& cluster) {
    if (!root.has("trunks")) return base::Ok{};
    const JsonPlace trunks = root.child("trunks");
    TRY(const std::size_t n_trunks, trunks.array_size());
    for (std::size_t t = 0; t < n_trunks; ++t) {
        const JsonPlace place = trunks.element(t);
        TRY(const LinkSpec line, read_link(place));
        TrunkSpec trunk;
        TRY(const JsonPlace from, place.member("from_region"));
        TRY(trunk.from_region, read_region(from));
        TRY(const JsonPlace to, place.member("to_region"));
        TRY(trunk.to_region, read_region(to));
        trunk.bandwidth_bytes_per_s = line.bandwidth_bytes_per_s;
        trunk.latency_s = line.latency_s;
        cluster.trunks.push_back(std::move(trunk));
    }
    return base::Ok{};
}

json link_json(const LinkSpec& link) {
    return {{"bandwidth_bytes_per_s", link.bandwidth_bytes_per_s},
            {"bandwidth_gbit_per_s", link.bandwidth_bytes_per_s * 8 / 1e9},
            {"latency_ms", link.latency_s * 1e3}};
}

json node_json(const NodeSpec& node, std::size_t index) {
    json out = {{"id", index},
                {"name", node.name},
                {"type", node.type},
                {"region", node.region},
                {"memory_bytes", node.memory_bytes},
                {"vram_gb", static_cast<double>(node.memory_bytes) / 1e9}};
    if (!node.host.empty()) out["host"] = node.host;
    if (!node.device.empty()) out["device"] = node.device;
    if (node.core_share < 1) out["core_share"] = node.core_share;
    if (node.role != NodeRole::both) out["role"] = to_string(node.role);
    const std::pair<const char*, double> optional[] = {
        {"nic_in_bytes_per_s", node.nic_in_bytes_per_s},
        {"nic_out_bytes_per_s", node.nic_out_bytes_per_s},
        {"decode_s_per_layer", node.decode_s_per_layer},
        {"decode_batch_s_per_layer", node.decode_batch_s_per_layer},
        {"prefill_s_per_token_layer", node.prefill_s_per_token_layer}};
    for (const auto& [key, value] : optional) {
        if (value != 0) out[key] = value;
    }
    return out;
}

json link_end_json(std::int32_t node) {
    return node == kCoordinator ? json("coordinator") : json(node);
}

}  // namespace

base::Result<ClusterSpec> parse_cluster_json(std::string_view text, const std::string& file) {
    TRY(const json document, parse_json(text, file));
    const JsonPlace root(document, file);
    TRY(const JsonPlace schema, root.member("schema"));
    if (schema.value() != "helix-cluster-1") return schema.error("\"helix-cluster-1\"");
    ClusterSpec cluster;
    TRY(cluster.name, root.text_or("name", "cluster"));
    TRY(const auto types, read_types(root));
    if (root.has("coordinator")) {
        const JsonPlace coordinator = root.child("coordinator");
        TRY(cluster.coordinator_nic_in_bytes_per_s, coordinator.number_or("nic_in_bytes_per_s", 0));
        TRY(cluster.coordinator_nic_out_bytes_per_s,
            coordinator.number_or("nic_out_bytes_per_s", 0));
        if (coordinator.has("region")) {
            TRY(cluster.coordinator_region, read_region(coordinator.child("region")));
        }
    }
    TRY(const JsonPlace nodes, root.member("nodes"));
    TRY(const std::size_t n_nodes, nodes.array_size());
    for (std::size_t i = 0; i < n_nodes; ++i) {
        TRY(NodeSpec node, read_node(nodes.element(i), i, types));
        cluster.nodes.push_back(std::move(node));
    }
    TRY_VOID(read_coordinator_links(root, cluster));
    TRY_VOID(read_links(root, "node_links", "a", "b", true, cluster));
    TRY_VOID(read_links(root, "directed_links", "from", "to", false, cluster));
    TRY_VOID(read_trunks(root, cluster));
    TRY_VOID(finish_cluster(cluster, file));
    return cluster;
}

std::string cluster_to_json(const ClusterSpec& cluster) {
    json out = {{"schema", "helix-cluster-1"},
                {"name", cluster.name},
                {"coordinator",
                 {{"nic_in_bytes_per_s", cluster.coordinator_nic_in_bytes_per_s},
                  {"nic_out_bytes_per_s", cluster.coordinator_nic_out_bytes_per_s}}},
                {"nodes", json::array()},
                {"coordinator_links", json::array()},
                {"node_links", json::array()},
                {"directed_links", json::array()}};
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i)
        out["nodes"].push_back(node_json(cluster.nodes[i], i));
    if (!cluster.coordinator_region.empty())
        out["coordinator"]["region"] = cluster.coordinator_region;
    for (const TrunkSpec& trunk : cluster.trunks) {
        json entry = link_json(
            {.bandwidth_bytes_per_s = trunk.bandwidth_bytes_per_s, .latency_s = trunk.latency_s});
        entry["from_region"] = trunk.from_region;
        entry["to_region"] = trunk.to_region;
        out["trunks"].push_back(std::move(entry));
    }
    std::map<std::pair<std::int32_t, std::int32_t>, LinkSpec> by_ends;
    for (const LinkSpec& link : cluster.links) by_ends.emplace(std::pair(link.from, link.to), link);
    for (const auto& [ends, link] : by_ends) {
        json entry = link_json(link);
        if (link.from == kCoordinator || link.to == kCoordinator) {
            const bool outward = link.from == kCoordinator;
            entry["direction"] = outward ? "coordinator_to_node" : "node_to_coordinator";
            entry["node"] = outward ? link.to : link.from;
            out["coordinator_links"].push_back(std::move(entry));
            continue;
        }
        const auto back = by_ends.find({link.to, link.from});
        const bool same = back != by_ends.end() && back->second.latency_s == link.latency_s &&
                          back->second.bandwidth_bytes_per_s == link.bandwidth_bytes_per_s;
        if (same && link.from > link.to) continue;  // the entry of the other direction has it
        entry[same ? "a" : "from"] = link_end_json(link.from);
        entry[same ? "b" : "to"] = link_end_json(link.to);
        out[same ? "node_links" : "directed_links"].push_back(std::move(entry));
    }
    return out.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace helix::spec
