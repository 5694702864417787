#include "plan/change/cluster_change.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/check.h"
#include "spec/catalogue.h"
#include "spec/cluster_file.h"
#include "spec/near_names.h"
#include "spec/units.h"

namespace helix::plan {
namespace {

using spec::ClusterSpec;
using spec::kCoordinator;
using spec::LinkSpec;
using spec::NodeSpec;

constexpr std::int32_t kMostAdded = 1000;

struct Line {
    double bandwidth_bytes_per_s = 0;
    double latency_s = 0;
    auto operator<=>(const Line&) const = default;
};

std::vector<std::string> node_names(const ClusterSpec& cluster) {
    std::vector<std::string> names;
    for (const NodeSpec& node : cluster.nodes) names.push_back(node.name);
    return names;
}

std::set<std::string> regions(const ClusterSpec& cluster) {
    std::set<std::string> names;
    for (const NodeSpec& node : cluster.nodes) names.insert(node.region);
    if (!cluster.coordinator_region.empty()) names.insert(cluster.coordinator_region);
    return names;
}

std::string list(const std::vector<std::string>& names) {
    constexpr std::size_t kShown = 20;
    if (names.size() <= kShown) return fmt::format("{}", fmt::join(names, ", "));
    return fmt::format("{}, ... ({} in all)",
                       fmt::join(names.begin(), names.begin() + kShown, ", "), names.size());
}

base::Result<std::int32_t> node_named(const ClusterSpec& cluster, const std::string& name) {
    if (const auto node = spec::find_node(cluster, name)) return *node;
    const std::vector<std::string> known = node_names(cluster);
    return base::Error{base::Errc::not_found,
                       fmt::format("\"{}\" is no machine of {}{}; its machines: {}", name,
                                   cluster.name, spec::did_you_mean(name, known), list(known))};
}

using Uses = std::map<Line, std::size_t>;

// Ties go to the faster line.
std::optional<Line> most_used(const Uses& uses) {
    std::optional<Line> best;
    std::size_t most = 0;
    for (const auto& [line, count] : uses) {
        if (count < most) continue;
        best = line;
        most = count;
    }
    return best;
}

// What a machine that is alone in its region and a second one there would be joined by: the
// commonest line between machines of one region, else the fastest of the first.
std::optional<Line> line_to_lone(const ClusterSpec& cluster, std::int32_t lone) {
    Uses within;
    std::optional<Line> fastest;
    for (const LinkSpec& link : cluster.links) {
        const Line line{link.bandwidth_bytes_per_s, link.latency_s};
        const bool own = link.from == lone || link.to == lone;
        if (own && (!fastest || *fastest < line)) fastest = line;
        if (link.from == kCoordinator || link.to == kCoordinator) continue;
        if (cluster.nodes[static_cast<std::size_t>(link.from)].region ==
            cluster.nodes[static_cast<std::size_t>(link.to)].region) {
            ++within[line];
        }
    }
    return within.empty() ? fastest : most_used(within);
}

// What a machine of this type is, but for name and place.
base::Result<NodeSpec> machine_of(const ClusterSpec& cluster, const std::string& type,
                                  const std::string& region) {
    const std::string folded = spec::folded_name(type);
    const NodeSpec* like = nullptr;
    for (const NodeSpec& node : cluster.nodes) {
        if (spec::folded_name(node.type) != folded) continue;
        if (like == nullptr || (like->region != region && node.region == region)) like = &node;
    }
    // Machines that measured themselves may have no type, but they have names.
    for (const NodeSpec& node : cluster.nodes) {
        if (like == nullptr && node.name == type) like = &node;
    }
    NodeSpec machine;
    if (like != nullptr) {
        machine = *like;
        machine.host.clear();
        machine.device.clear();
        machine.core_share = 1;
        return machine;
    }
    TRY(const spec::MachineType known, spec::find_machine_type(type));
    machine.type = type;
    machine.memory_bytes = known.memory_bytes;
    machine.nic_in_bytes_per_s = known.nic_bytes_per_s;
    machine.nic_out_bytes_per_s = known.nic_bytes_per_s;
    return machine;
}

base::Result<std::string> region_of(const ClusterSpec& cluster, const AddMachines& add) {
    const std::set<std::string> known = regions(cluster);
    if (known.contains(add.region)) return add.region;
    if (add.region.empty() && known.size() == 1) return *known.begin();
    std::vector<std::string> names(known.begin(), known.end());
    std::erase(names, "");
    if (names.empty()) {
        return base::invalid(
            fmt::format("the machines of {} have no regions; expected only a type", cluster.name));
    }
    return base::invalid(
        fmt::format("no machine of {} is in region \"{}\"{}; expected TYPE@REGION with one of: {}",
                    cluster.name, add.region, spec::did_you_mean(add.region, names), list(names)));
}

// Links of the new machine (the last of the cluster) to and from everything before it. One pass
// over the links: there may be a million.
void add_links(ClusterSpec& cluster, const AddMachines& add, const std::string& region) {
    const std::size_t n = cluster.nodes.size() - 1;
    if (add.network) {
        const auto [bandwidth, latency_s] = *add.network;
        for (auto other = kCoordinator; other < static_cast<std::int32_t>(n); ++other) {
            cluster.links.push_back({static_cast<std::int32_t>(n), other, bandwidth, latency_s});
            cluster.links.push_back({other, static_cast<std::int32_t>(n), bandwidth, latency_s});
        }
        return;
    }
    std::vector<bool> mate(n + 1);  // [node + 1]; 0 is the coordinator
    std::size_t mates = 0;
    for (std::size_t i = 0; i < n; ++i) {
        mate[i + 1] = cluster.nodes[i].region == region;
        if (mate[i + 1]) ++mates;
    }
    if (mates == 0) mate[0] = true;  // alone in this region, as region_of() knows
    std::vector<Uses> out(n + 1);
    std::vector<Uses> in(n + 1);
    for (const LinkSpec& link : cluster.links) {
        const Line line{link.bandwidth_bytes_per_s, link.latency_s};
        const auto from = static_cast<std::size_t>(link.from + 1);
        const auto to = static_cast<std::size_t>(link.to + 1);
        if (mate[from]) ++out[to][line];
        if (mate[to]) ++in[from][line];
    }
    const auto node = static_cast<std::int32_t>(n);
    for (std::int32_t other = kCoordinator; other < node; ++other) {
        const auto k = static_cast<std::size_t>(other + 1);
        std::optional<Line> to_other = most_used(out[k]);
        std::optional<Line> from_other = most_used(in[k]);
        if (mates <= 1 && mate[k]) to_other = from_other = line_to_lone(cluster, other);
        if (to_other)
            cluster.links.push_back(
                {node, other, to_other->bandwidth_bytes_per_s, to_other->latency_s});
        if (from_other)
            cluster.links.push_back(
                {other, node, from_other->bandwidth_bytes_per_s, from_other->latency_s});
    }
}

std::string free_name(const ClusterSpec& cluster, const std::string& type) {
    std::set<std::string> taken;
    for (const NodeSpec& node : cluster.nodes) taken.insert(node.name);
    std::string name = "new-" + type;
    for (int k = 2; taken.contains(name); ++k) name = fmt::format("new-{}-{}", type, k);
    return name;
}

base::Status apply(const AddMachines& add, ChangedCluster& changed) {
    ClusterSpec& cluster = changed.cluster;
    if (add.count < 1 || add.count > kMostAdded) {
        return base::invalid(
            fmt::format("{}: expected 1 to {} machines", to_string(Change(add)), kMostAdded));
    }
    if (add.network && (!(add.network->bandwidth_bytes_per_s > 0) || add.network->latency_s < 0)) {
        return base::invalid(fmt::format(
            "{}: expected a bandwidth above 0 and a latency not below 0", to_string(Change(add))));
    }
    TRY(const std::string region, region_of(cluster, add));
    TRY(NodeSpec machine, machine_of(cluster, add.type, region));
    for (std::int32_t k = 0; k < add.count; ++k) {
        machine.name = free_name(cluster, machine.type.empty() ? add.type : machine.type);
        machine.region = region;
        cluster.nodes.push_back(machine);
        changed.origin.push_back(-1);
        add_links(cluster, add, region);
    }
    return base::Ok{};
}

base::Status apply(const RemoveMachine& remove, ChangedCluster& changed) {
    ClusterSpec& cluster = changed.cluster;
    TRY(const std::int32_t gone, node_named(cluster, remove.node));
    if (cluster.nodes.size() == 1) {
        return base::invalid(
            fmt::format("\"{}\" is the only machine of {}", remove.node, cluster.name));
    }
    cluster.nodes.erase(cluster.nodes.begin() + gone);
    changed.origin.erase(changed.origin.begin() + gone);
    std::erase_if(cluster.links,
                  [&](const LinkSpec& link) { return link.from == gone || link.to == gone; });
    for (LinkSpec& link : cluster.links) {
        if (link.from > gone) --link.from;
        if (link.to > gone) --link.to;
    }
    // A trunk of a region that nobody is in any more says nothing.
    const std::set<std::string> left = regions(cluster);
    std::erase_if(cluster.trunks, [&](const spec::TrunkSpec& trunk) {
        return !left.contains(trunk.from_region) || !left.contains(trunk.to_region);
    });
    return base::Ok{};
}

struct Ends {
    std::string a;
    std::string b;
};

// The split of "a:b" for which known(a) and known(b); names may hold ':' themselves.
template <typename Known>
std::optional<Ends> split_ends(const std::string& ends, Known&& known) {
    for (std::size_t at = ends.find(':'); at != std::string::npos; at = ends.find(':', at + 1)) {
        const Ends split{ends.substr(0, at), ends.substr(at + 1)};
        if (known(split.a) && known(split.b)) return split;
    }
    return std::nullopt;
}

base::Status set_pair(const SetLink& set, const Ends& ends, ClusterSpec& cluster) {
    const auto index = [&](const std::string& name) {
        return name == "coordinator" ? kCoordinator : *node_named(cluster, name);
    };
    const std::int32_t a = index(ends.a);
    const std::int32_t b = index(ends.b);
    if (a == b) return base::invalid(fmt::format("link {}: leads to itself", set.ends));
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
        const auto found = std::find_if(
            cluster.links.begin(), cluster.links.end(),
            [&, f = from, t = to](const LinkSpec& link) { return link.from == f && link.to == t; });
        if (found != cluster.links.end()) {
            found->bandwidth_bytes_per_s = set.bandwidth_bytes_per_s;
            if (set.latency_s) found->latency_s = *set.latency_s;
        } else if (set.latency_s) {
            cluster.links.push_back({from, to, set.bandwidth_bytes_per_s, *set.latency_s});
        } else {
            return base::invalid(fmt::format(
                "link {}: is new, so it needs a latency too, as {}=1Gbps,5ms", set.ends, set.ends));
        }
    }
    return base::Ok{};
}

base::Status set_regions(const SetLink& set, const Ends& ends, ClusterSpec& cluster) {
    if (ends.a == ends.b && ends.a.empty())
        return base::invalid(fmt::format("link {}: expected two names", set.ends));
    const auto region = [&](std::int32_t node) -> const std::string& {
        return node == kCoordinator ? cluster.coordinator_region
                                    : cluster.nodes[static_cast<std::size_t>(node)].region;
    };
    const auto between = [&](const std::string& from, const std::string& to) {
        return (from == ends.a && to == ends.b) || (from == ends.b && to == ends.a);
    };
    std::size_t changed = 0;
    for (LinkSpec& link : cluster.links) {
        if (!between(region(link.from), region(link.to))) continue;
        link.bandwidth_bytes_per_s = set.bandwidth_bytes_per_s;
        if (set.latency_s) link.latency_s = *set.latency_s;
        ++changed;
    }
    if (changed == 0)
        return base::invalid(fmt::format("link {}: no link joins these regions", set.ends));
    for (spec::TrunkSpec& trunk : cluster.trunks) {
        if (!between(trunk.from_region, trunk.to_region)) continue;
        trunk.bandwidth_bytes_per_s = set.bandwidth_bytes_per_s;
        if (set.latency_s) trunk.latency_s = *set.latency_s;
    }
    return base::Ok{};
}

base::Status apply(const SetLink& set, ChangedCluster& changed) {
    ClusterSpec& cluster = changed.cluster;
    std::set<std::string> machines = {"coordinator"};
    for (const NodeSpec& node : cluster.nodes) machines.insert(node.name);
    const auto is_machine = [&](const std::string& name) { return machines.contains(name); };
    if (const auto ends = split_ends(set.ends, is_machine)) return set_pair(set, *ends, cluster);
    const std::set<std::string> known = regions(cluster);
    const auto is_region = [&](const std::string& name) {
        return !name.empty() && known.contains(name);
    };
    if (const auto ends = split_ends(set.ends, is_region)) return set_regions(set, *ends, cluster);
    std::vector<std::string> names(known.begin(), known.end());
    std::erase(names, "");
    const std::string of_regions = names.empty() ? "" : "; regions: " + list(names);
    return base::invalid(
        fmt::format("link {}: expected two machines (or \"coordinator\") or two regions, as a:b; "
                    "machines of {}: {}{}",
                    set.ends, cluster.name, list(node_names(cluster)), of_regions));
}

base::Status apply(const UpgradeMachine& upgrade, ChangedCluster& changed) {
    ClusterSpec& cluster = changed.cluster;
    TRY(const std::int32_t index, node_named(cluster, upgrade.node));
    NodeSpec& node = cluster.nodes[static_cast<std::size_t>(index)];
    TRY(NodeSpec machine, machine_of(cluster, upgrade.type, node.region));
    machine.name = node.name;
    machine.region = node.region;
    machine.host = node.host;
    machine.device = node.device;
    machine.core_share = node.core_share;
    machine.nic_in_bytes_per_s = node.nic_in_bytes_per_s;
    machine.nic_out_bytes_per_s = node.nic_out_bytes_per_s;
    node = std::move(machine);
    return base::Ok{};
}

base::Status apply(const SlowMachine& slow, ChangedCluster& changed) {
    if (!(slow.factor > 0)) {
        return base::invalid(fmt::format("slow {}: expected a factor above 0", slow.node));
    }
    TRY(const std::int32_t index, node_named(changed.cluster, slow.node));
    NodeSpec& node = changed.cluster.nodes[static_cast<std::size_t>(index)];
    if (!(node.decode_s_per_layer > 0)) {
        return base::invalid(fmt::format(
            "slow {}: it has not measured itself, so there is nothing to slow", slow.node));
    }
    node.decode_s_per_layer *= slow.factor;
    node.decode_batch_s_per_layer *= slow.factor;
    node.prefill_s_per_token_layer *= slow.factor;
    return base::Ok{};
}

base::Error expected(std::string_view option, std::string_view text, std::string_view form) {
    return base::invalid(fmt::format("{} \"{}\": expected {}", option, text, form));
}

}  // namespace

base::Result<Change> parse_add(std::string_view text) {
    constexpr std::string_view kForm = "TYPE@REGION or COUNTxTYPE@REGION, as 3xL4@region-a";
    AddMachines add;
    const std::size_t at = text.find('@');
    std::string_view type = text.substr(0, at);
    if (at != std::string_view::npos) {
        add.region = text.substr(at + 1);
        if (add.region.empty()) return expected("--add", text, kForm);
    }
    const std::size_t digits = type.find_first_not_of("0123456789");
    if (digits != 0 && digits != std::string_view::npos && type[digits] == 'x') {
        std::int64_t count = 0;
        for (const char c : type.substr(0, digits)) {
            count = std::min<std::int64_t>(count * 10 + (c - '0'), kMostAdded + 1);
        }
        if (count < 1 || count > kMostAdded)
            return expected("--add", text, fmt::format("1 to {} machines", kMostAdded));
        add.count = static_cast<std::int32_t>(count);
        type.remove_prefix(digits + 1);
    }
    if (type.empty()) return expected("--add", text, kForm);
    add.type = type;
    return Change(std::move(add));
}

base::Result<Change> parse_remove(std::string_view text) {
    if (text.empty()) return expected("--remove", text, "a machine's name");
    return Change(RemoveMachine{std::string(text)});
}

base::Result<Change> parse_link(std::string_view text) {
    const std::size_t equals = text.rfind('=');
    if (equals == std::string_view::npos ||
        text.substr(0, equals).find(':') == std::string_view::npos) {
        return expected("--link", text, "A:B=BANDWIDTH[,LATENCY], as a:b=1Gbps,5ms");
    }
    SetLink set{.ends = std::string(text.substr(0, equals)), .latency_s = std::nullopt};
    const std::string_view values = text.substr(equals + 1);
    const std::size_t comma = values.find(',');
    const auto wrong = [&](const base::Error& error) {
        return base::invalid(fmt::format("--link \"{}\": {}", text, error.message));
    };
    const auto bandwidth = spec::parse_bandwidth(values.substr(0, comma));
    if (!bandwidth.ok()) return wrong(bandwidth.error());
    if (!(*bandwidth > 0)) return expected("--link", text, "a bandwidth above 0");
    set.bandwidth_bytes_per_s = *bandwidth;
    if (comma != std::string_view::npos) {
        const auto latency = spec::parse_duration(values.substr(comma + 1));
        if (!latency.ok()) return wrong(latency.error());
        set.latency_s = *latency;
    }
    return Change(std::move(set));
}

base::Result<Change> parse_upgrade(std::string_view text) {
    const std::size_t equals = text.rfind('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == text.size())
        return expected("--upgrade", text, "MACHINE=TYPE, as node3=A100");
    return Change(
        UpgradeMachine{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))});
}

std::string to_string(const Change& change) {
    if (const auto* add = std::get_if<AddMachines>(&change)) {
        const std::string count = add->count == 1 ? "" : fmt::format("{} x ", add->count);
        const std::string region = add->region.empty() ? "" : " in " + add->region;
        return fmt::format("add {}{}{}", count, add->type, region);
    }
    if (const auto* remove = std::get_if<RemoveMachine>(&change)) return "remove " + remove->node;
    if (const auto* set = std::get_if<SetLink>(&change)) {
        const std::string latency =
            set->latency_s ? ", " + spec::format_duration(*set->latency_s) : "";
        return fmt::format("link {} at {}{}", set->ends,
                           spec::format_bandwidth(set->bandwidth_bytes_per_s), latency);
    }
    if (const auto* slow = std::get_if<SlowMachine>(&change)) {
        return fmt::format("slow {} by {:.4g}", slow->node, slow->factor);
    }
    const auto& upgrade = std::get<UpgradeMachine>(change);
    return fmt::format("upgrade {} to {}", upgrade.node, upgrade.type);
}

base::Result<ChangedCluster> apply_change(const ClusterSpec& cluster, const Change& change) {
    return apply_changes(cluster, {change});
}

base::Result<ChangedCluster> apply_changes(const ClusterSpec& cluster,
                                           const std::vector<Change>& changes) {
    ChangedCluster changed{cluster, {}};
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i)
        changed.origin.push_back(static_cast<std::int32_t>(i));
    for (const Change& change : changes) {
        TRY_VOID(std::visit([&](const auto& one) { return apply(one, changed); }, change));
    }
    TRY_VOID(spec::finish_cluster(changed.cluster, cluster.name));
    return changed;
}

spec::Placement carry_over(const spec::Placement& before, const std::vector<std::int32_t>& origin) {
    spec::Placement after;
    for (const std::int32_t old : origin) {
        CHECK(old < static_cast<std::int32_t>(before.layers.size()));
        after.layers.push_back(old < 0 ? spec::LayerRange{}
                                       : before.layers[static_cast<std::size_t>(old)]);
    }
    return after;
}

}  // namespace helix::plan
