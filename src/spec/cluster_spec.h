#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace helix::spec {

// What a machine computes for a request (prefill/decode disaggregation): the prompt up to the first
// token, what comes after it, or both.
enum class NodeRole : std::uint8_t { both, prefill, decode };
const char* to_string(NodeRole role);
std::optional<NodeRole> parse_role(std::string_view text);  // none: it is no role's name
inline constexpr const char* kRoleNames = "\"prefill\", \"decode\" or \"both\"";

// One machine of a cluster: two vertices of the flow graph. Indices into ClusterSpec::nodes name
// nodes everywhere in plan; runtime worker ids are mapped outside.
struct NodeSpec {
    std::string name;  // unique in the cluster
    std::string type;  // machine type: a key of measured tables or of the catalogue ("A100", "cpu")
    std::string region;  // "" when unknown
    std::string host;    // nodes with one host are one machine; "" = a machine of its own
    std::int64_t memory_bytes = 0;  // for weights and KV together
    double nic_in_bytes_per_s = 0;  // 0 = never binds
    double nic_out_bytes_per_s = 0;
    // The next three are measured by the node itself; 0 when only its type is known.
    double decode_s_per_layer = 0;         // one layer, one token of one sequence
    double decode_batch_s_per_layer = 0;   // one layer, one token of each of 8 sequences
    double prefill_s_per_token_layer = 0;  // one layer, per token of a long chunk
    NodeRole role = NodeRole::both;
    // Of a machine's nodes those with one device share what computes; "" = the machine's cores.
    std::string device = {};
    // Of that device, or of the machine's cores, the part that it computes with: above 0, at
    // most 1.
    double core_share = 1;
};

// Whether they compute with the same processors: cores of one machine, or one of its devices.
inline bool share_processors(const NodeSpec& a, const NodeSpec& b) {
    return !a.host.empty() && a.host == b.host && a.device == b.device;
}

// How many of these nodes can compute at the same time without taking it from each other: of those
// that share processors as many as their core_shares leave room for, and at least one.
std::int32_t computing_at_once(std::span<const NodeSpec* const> nodes);

constexpr std::int32_t kCoordinator = -1;

// A directed link; each direction of a cable is one LinkSpec.
struct LinkSpec {
    std::int32_t from = kCoordinator;  // index into ClusterSpec::nodes, or kCoordinator
    std::int32_t to = kCoordinator;
    double bandwidth_bytes_per_s = 0;
    double latency_s = 0;
};

// The line between two regions in one direction. It limits what all links from machines (or the
// coordinator) of the one to those of the other carry together; each of these links also has a
// LinkSpec of its own.
struct TrunkSpec {
    std::string from_region;
    std::string to_region;  // differs from from_region
    double bandwidth_bytes_per_s = 0;
    double latency_s = 0;
};

struct ClusterSpec {
    std::string name;
    std::vector<NodeSpec> nodes;
    std::vector<LinkSpec> links;                // at most one for each ordered pair
    double coordinator_nic_in_bytes_per_s = 0;  // 0 = never binds
    double coordinator_nic_out_bytes_per_s = 0;
    std::string coordinator_region = {};  // "" when unknown, or a region of its own
    std::vector<TrunkSpec> trunks = {};   // at most one for each ordered pair of regions
};

// The index of the node of this name; none: no node has it.
inline std::optional<std::int32_t> find_node(const ClusterSpec& cluster, std::string_view name) {
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
        if (cluster.nodes[i].name == name) return static_cast<std::int32_t>(i);
    }
    return std::nullopt;
}

// The name of a link's end: a node's, or "coordinator".
inline std::string end_name(const ClusterSpec& cluster, std::int32_t end) {
    return end == kCoordinator ? "coordinator" : cluster.nodes[static_cast<std::size_t>(end)].name;
}

}  // namespace helix::spec
