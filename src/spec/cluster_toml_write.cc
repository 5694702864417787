#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "spec/cluster_file.h"
#include "spec/units.h"

namespace helix::spec {
namespace {

std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
            out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
        } else {
            out += c;
        }
    }
    return out + '"';
}

void write_nics(std::string& out, double in, double nic_out) {
    if (in > 0 && in == nic_out) {
        out += fmt::format("nic = \"{}\"\n", format_bandwidth(in, true));
        return;
    }
    if (in > 0) out += fmt::format("nic_in = \"{}\"\n", format_bandwidth(in, true));
    if (nic_out > 0) out += fmt::format("nic_out = \"{}\"\n", format_bandwidth(nic_out, true));
}

void write_machine(std::string& out, const NodeSpec& node) {
    out += fmt::format("\n[[machines]]\nname = {}\n", quoted(node.name));
    if (!node.type.empty()) out += fmt::format("type = {}\n", quoted(node.type));
    if (!node.region.empty()) out += fmt::format("region = {}\n", quoted(node.region));
    if (!node.host.empty()) out += fmt::format("host = {}\n", quoted(node.host));
    if (!node.device.empty()) out += fmt::format("device = {}\n", quoted(node.device));
    if (node.core_share < 1) out += fmt::format("core_share = {}\n", node.core_share);
    if (node.role != NodeRole::both) out += fmt::format("role = \"{}\"\n", to_string(node.role));
    out += fmt::format("memory = \"{}\"\n", format_bytes(node.memory_bytes, true));
    write_nics(out, node.nic_in_bytes_per_s, node.nic_out_bytes_per_s);
    const std::pair<const char*, double> times[] = {
        {"decode_per_layer", node.decode_s_per_layer},
        {"decode_batch8_per_layer", node.decode_batch_s_per_layer},
        {"prefill_per_token_layer", node.prefill_s_per_token_layer}};
    for (const auto& [key, seconds] : times) {
        if (seconds > 0) out += fmt::format("{} = \"{}\"\n", key, format_duration(seconds, true));
    }
}

struct WrittenLine {
    double bandwidth_bytes_per_s = 0;
    double latency_s = 0;
    auto operator<=>(const WrittenLine&) const = default;
};

std::string line_text(const WrittenLine& line, const char* separator) {
    return fmt::format("bandwidth = \"{}\"{}latency = \"{}\"",
                       format_bandwidth(line.bandwidth_bytes_per_s, true), separator,
                       format_duration(line.latency_s, true));
}

using Uses = std::map<WrittenLine, std::size_t>;
using RegionPair = std::pair<std::string, std::string>;

WrittenLine most_used(const Uses& uses) {
    return std::max_element(uses.begin(), uses.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; })
        ->first;
}

// Writes [links] in few lines: what most pairs share becomes a rule, and the other pairs have lines
// of their own. A rule gives a link to every pair that it names, so it is used only where every
// pair has one.
class LinkWriter {
  public:
    explicit LinkWriter(const ClusterSpec& cluster) : cluster_(cluster), links_(cluster.links) {
        std::sort(links_.begin(), links_.end(), [](const LinkSpec& a, const LinkSpec& b) {
            return std::pair(a.from, a.to) < std::pair(b.from, b.to);
        });
    }

    std::string write() {
        if (links_.empty() && cluster_.trunks.empty()) return "";
        out_ = "\n[links]\n";
        choose_rules();
        if (default_) out_ += fmt::format("default = {{{}}}\n", line_text(*default_, ", "));
        write_trunks();
        write_regions();
        write_pairs();
        return std::move(out_);
    }

  private:
    static WrittenLine line_of(const LinkSpec& link) {
        return {link.bandwidth_bytes_per_s, link.latency_s};
    }

    const std::string& region(std::int32_t node) const {
        return node == kCoordinator ? cluster_.coordinator_region
                                    : cluster_.nodes[static_cast<std::size_t>(node)].region;
    }

    // default_ is the most common line of a full mesh. rules_ has the most common line between two
    // regions whose pairs all have links, where it differs from default_.
    void choose_rules() {
        Uses uses;
        std::map<RegionPair, Uses> by_regions;
        for (const LinkSpec& link : links_) {
            ++uses[line_of(link)];
            ++by_regions[{region(link.from), region(link.to)}][line_of(link)];
        }
        const std::size_t n = cluster_.nodes.size();
        if (!uses.empty() && links_.size() == n * (n + 1)) default_ = most_used(uses);
        std::map<std::string, std::size_t> sizes;
        ++sizes[cluster_.coordinator_region];
        for (const NodeSpec& node : cluster_.nodes) ++sizes[node.region];
        for (const auto& [regions, found] : by_regions) {
            if (regions.first.empty() || regions.second.empty()) continue;
            std::size_t all = sizes[regions.first] * sizes[regions.second];
            if (regions.first == regions.second) all -= sizes[regions.first];
            std::size_t present = 0;
            for (const auto& [line, count] : found) present += count;
            const WrittenLine line = most_used(found);
            const auto by_default = default_ ? found.find(*default_) : found.end();
            const std::size_t saved = by_default == found.end() ? 0 : by_default->second;
            if (present == all && found.at(line) > saved + 1) rules_.emplace(regions, line);
        }
    }

    std::string between(const RegionPair& regions, bool both_ways) const {
        const std::string from = quoted(regions.first);
        const std::string to = quoted(regions.second);
        return both_ways ? fmt::format("between = [{}, {}]\n", from, to)
                         : fmt::format("from = {}\nto = {}\n", from, to);
    }

    void write_trunks() {
        std::map<RegionPair, WrittenLine> trunks;
        for (const TrunkSpec& trunk : cluster_.trunks) {
            trunks[{trunk.from_region, trunk.to_region}] = {trunk.bandwidth_bytes_per_s,
                                                            trunk.latency_s};
        }
        const auto gives_links = [&](const RegionPair& regions) {
            const auto rule = rules_.find(regions);
            return rule != rules_.end() && rule->second == trunks.at(regions);
        };
        for (const auto& [regions, line] : trunks) {
            const RegionPair reverse(regions.second, regions.first);
            const auto back = trunks.find(reverse);
            const bool same = back != trunks.end() && back->second == line &&
                              gives_links(regions) == gives_links(reverse);
            if (same && regions.first > regions.second) continue;
            out_ += "\n[[links.trunks]]\n" + between(regions, same) + line_text(line, "\n") + "\n";
            if (!gives_links(regions)) out_ += "links = false\n";
            if (gives_links(regions)) by_trunk_.insert(regions);
            if (gives_links(regions) && same) by_trunk_.insert(reverse);
        }
    }

    void write_regions() {
        for (const auto& [regions, line] : rules_) {
            if (by_trunk_.contains(regions)) continue;
            const RegionPair reverse(regions.second, regions.first);
            const auto back = rules_.find(reverse);
            const bool same =
                back != rules_.end() && back->second == line && !by_trunk_.contains(reverse);
            if (same && regions.first > regions.second) continue;
            out_ += "\n[[links.regions]]\n" + between(regions, same) + line_text(line, "\n") + "\n";
        }
    }

    // Whether the rules give this link.
    bool by_rule(const LinkSpec& link) const {
        const auto rule = rules_.find({region(link.from), region(link.to)});
        if (rule != rules_.end()) return rule->second == line_of(link);
        return default_ == line_of(link);
    }

    const LinkSpec* find(std::int32_t from, std::int32_t to) const {
        const auto found = std::lower_bound(links_.begin(), links_.end(), std::pair(from, to),
                                            [](const LinkSpec& link, const auto& ends) {
                                                return std::pair(link.from, link.to) < ends;
                                            });
        const bool exists = found != links_.end() && found->from == from && found->to == to;
        return exists ? &*found : nullptr;
    }

    void write_pairs() {
        const auto name = [&](std::int32_t node) { return quoted(end_name(cluster_, node)); };
        for (const LinkSpec& link : links_) {
            if (by_rule(link)) continue;
            const LinkSpec* back = find(link.to, link.from);
            const bool same = back != nullptr && line_of(*back) == line_of(link) && !by_rule(*back);
            if (same && link.from > link.to) continue;
            out_ += "\n[[links.pairs]]\n";
            out_ += same ? fmt::format("between = [{}, {}]\n", name(link.from), name(link.to))
                         : fmt::format("from = {}\nto = {}\n", name(link.from), name(link.to));
            out_ += line_text(line_of(link), "\n") + "\n";
        }
    }

    const ClusterSpec& cluster_;
    std::vector<LinkSpec> links_;  // by (from, to)
    std::optional<WrittenLine> default_;
    std::map<RegionPair, WrittenLine> rules_;
    std::set<RegionPair> by_trunk_;  // pairs of regions whose rule is given by a trunk
    std::string out_;
};

}  // namespace

std::string cluster_to_toml(const ClusterSpec& cluster) {
    std::string out = fmt::format("name = {}\n", quoted(cluster.name));
    if (cluster.coordinator_nic_in_bytes_per_s > 0 || cluster.coordinator_nic_out_bytes_per_s > 0 ||
        !cluster.coordinator_region.empty()) {
        out += "\n[coordinator]\n";
        if (!cluster.coordinator_region.empty())
            out += fmt::format("region = {}\n", quoted(cluster.coordinator_region));
        write_nics(out, cluster.coordinator_nic_in_bytes_per_s,
                   cluster.coordinator_nic_out_bytes_per_s);
    }
    for (const NodeSpec& node : cluster.nodes) write_machine(out, node);
    return out + LinkWriter(cluster).write();
}

}  // namespace helix::spec
