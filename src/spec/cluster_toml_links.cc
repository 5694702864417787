#include "spec/cluster_toml_links.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "spec/units.h"

namespace helix::spec {
namespace {

// What a rule may say of a pair of machines.
struct Line {
    double bandwidth_bytes_per_s = 0;
    double latency_s = 0;
};

struct Ends {
    std::string from;
    std::string to;
    bool both_ways = false;
};

class LinkReader {
  public:
    LinkReader(const TomlFile& file, ClusterSpec& cluster) : file_(file), cluster_(cluster) {
        coordinator_region_ = region_number(cluster.coordinator_region);
        for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
            node_regions_.push_back(region_number(cluster.nodes[i].region));
            nodes_.emplace(cluster.nodes[i].name, static_cast<std::int32_t>(i));
        }
    }

    base::Status read(const toml::table& root) {
        TRY(const toml::table* links, file_.table(root, "links"));
        if (links == nullptr) return base::Ok{};
        TRY_VOID(file_.only(*links, "[links]",
                            {"default", "same_region", "regions", "trunks", "pairs"}));
        TRY(const std::optional<Line> fallback, common_line(*links, "default"));
        TRY(const std::optional<Line> same_region, common_line(*links, "same_region"));
        start_region_lines(fallback, same_region);
        TRY_VOID(read_trunks(*links));  // regions win over trunks: they are read later
        TRY_VOID(read_region_lines(*links));
        TRY_VOID(read_pair_lines(*links));
        expand();
        return base::Ok{};
    }

  private:
    base::Result<Line> line(const toml::table& parent) const {
        for (const char* key : {"bandwidth", "latency"}) {
            if (!parent.contains(key))
                return file_.wrong(parent, fmt::format("link: has no {}", key));
        }
        Line read;
        TRY(read.bandwidth_bytes_per_s, file_.quantity(parent, "bandwidth", parse_bandwidth, 0.0));
        TRY(read.latency_s, file_.quantity(parent, "latency", parse_duration, 0.0));
        if (read.bandwidth_bytes_per_s <= 0)
            return file_.wrong(parent, "bandwidth: must be above 0");
        return read;
    }

    base::Result<std::optional<Line>> common_line(const toml::table& links, const char* key) const {
        TRY(const toml::table* found, file_.table(links, key));
        if (found == nullptr) return std::optional<Line>{};
        TRY_VOID(file_.only(*found, key, {"bandwidth", "latency"}));
        TRY(const Line read, line(*found));
        return std::optional<Line>{read};
    }

    // Reads between = [a, b], or from = a and to = b.
    base::Result<Ends> ends(const toml::table& entry) const {
        Ends read;
        if (entry.contains("from") || entry.contains("to")) {
            if (entry.contains("between"))
                return file_.wrong(entry, "has both between and from/to");
            TRY(read.from, file_.text(entry, "from", ""));
            TRY(read.to, file_.text(entry, "to", ""));
            return read;
        }
        TRY(const toml::array* both, file_.list(entry, "between"));
        if (both == nullptr || both->size() != 2 || !(*both)[0].is_string() ||
            !(*both)[1].is_string()) {
            return file_.wrong(entry, "between: expected two names, as between = [\"a\", \"b\"]");
        }
        return Ends{(*both)[0].as_string()->get(), (*both)[1].as_string()->get(), true};
    }

    std::size_t region_number(const std::string& name) {
        return regions_.emplace(name, regions_.size()).first->second;
    }

    base::Result<std::size_t> region_named(const toml::node& where, const std::string& name) const {
        const auto found = regions_.find(name);
        if (found == regions_.end())
            return file_.wrong(where, fmt::format("no machine is in region \"{}\"", name));
        return found->second;
    }

    base::Result<std::int32_t> end_named(const toml::node& where, const std::string& name) const {
        if (name == "coordinator") return kCoordinator;
        const auto found = nodes_.find(name);
        if (found == nodes_.end()) {
            return file_.wrong(where, fmt::format("\"{}\" is no machine of this file, nor "
                                                  "\"coordinator\"",
                                                  name));
        }
        return found->second;
    }

    std::optional<Line>& region_line(std::size_t from, std::size_t to) {
        return region_lines_[from * regions_.size() + to];
    }

    void start_region_lines(const std::optional<Line>& fallback,
                            const std::optional<Line>& same_region) {
        region_lines_.assign(regions_.size() * regions_.size(), fallback);
        if (!same_region) return;
        for (const auto& [name, number] : regions_) {
            if (!name.empty()) region_line(number, number) = same_region;
        }
    }

    base::Status read_region_lines(const toml::table& links) {
        TRY(const toml::array* entries, file_.list(links, "regions"));
        if (entries == nullptr) return base::Ok{};
        for (const toml::node& node : *entries) {
            if (!node.is_table()) return file_.wrong(node, "links.regions: expected tables");
            const toml::table& entry = *node.as_table();
            TRY_VOID(file_.only(entry, "links.regions",
                                {"between", "from", "to", "bandwidth", "latency"}));
            TRY(const Ends names, ends(entry));
            TRY(const std::size_t from, region_named(node, names.from));
            TRY(const std::size_t to, region_named(node, names.to));
            TRY(const Line read, line(entry));
            region_line(from, to) = read;
            if (names.both_ways) region_line(to, from) = read;
        }
        return base::Ok{};
    }

    base::Status read_trunks(const toml::table& links) {
        TRY(const toml::array* entries, file_.list(links, "trunks"));
        if (entries == nullptr) return base::Ok{};
        for (const toml::node& node : *entries) {
            if (!node.is_table()) return file_.wrong(node, "links.trunks: expected tables");
            const toml::table& entry = *node.as_table();
            TRY_VOID(file_.only(entry, "links.trunks",
                                {"between", "from", "to", "bandwidth", "latency", "links"}));
            TRY(const Ends names, ends(entry));
            TRY(const std::size_t from, region_named(node, names.from));
            TRY(const std::size_t to, region_named(node, names.to));
            if (from == to || names.from.empty() || names.to.empty())
                return file_.wrong(node, "a trunk joins two different regions");
            TRY(const Line read, line(entry));
            TRY(const bool gives_links, file_.flag(entry, "links", true));
            TRY_VOID(add_trunk(node, names.from, names.to, read));
            if (names.both_ways) TRY_VOID(add_trunk(node, names.to, names.from, read));
            if (!gives_links) continue;
            region_line(from, to) = read;
            if (names.both_ways) region_line(to, from) = read;
        }
        return base::Ok{};
    }

    base::Status add_trunk(const toml::node& where, const std::string& from, const std::string& to,
                           const Line& line) {
        for (const TrunkSpec& other : cluster_.trunks) {
            if (other.from_region == from && other.to_region == to)
                return file_.wrong(where, "these regions have a trunk already");
        }
        cluster_.trunks.push_back({from, to, line.bandwidth_bytes_per_s, line.latency_s});
        return base::Ok{};
    }

    base::Status read_pair_lines(const toml::table& links) {
        TRY(const toml::array* entries, file_.list(links, "pairs"));
        if (entries == nullptr) return base::Ok{};
        for (const toml::node& node : *entries) {
            if (!node.is_table()) return file_.wrong(node, "links.pairs: expected tables");
            const toml::table& entry = *node.as_table();
            TRY_VOID(file_.only(entry, "links.pairs",
                                {"between", "from", "to", "bandwidth", "latency"}));
            TRY(const Line read, line(entry));
            TRY(const Ends names, ends(entry));
            TRY(const std::int32_t from, end_named(node, names.from));
            TRY(const std::int32_t to, end_named(node, names.to));
            if (from == to) return file_.wrong(node, "leads from a machine to itself");
            bool fresh = pair_lines_.emplace(std::pair(from, to), read).second;
            if (names.both_ways)
                fresh = pair_lines_.emplace(std::pair(to, from), read).second && fresh;
            if (!fresh) return file_.wrong(node, "this pair is given twice");
        }
        return base::Ok{};
    }

    std::size_t region(std::int32_t node) const {
        return node == kCoordinator ? coordinator_region_
                                    : node_regions_[static_cast<std::size_t>(node)];
    }

    // A million pairs are common (1,000 machines), so each costs only a look into a small table;
    // pair_lines_ is walked in step, in the same order.
    void expand() {
        const auto n = static_cast<std::int32_t>(cluster_.nodes.size());
        auto pair = pair_lines_.begin();
        for (std::int32_t from = kCoordinator; from < n; ++from) {
            for (std::int32_t to = kCoordinator; to < n; ++to) {
                if (from == to) continue;
                const std::optional<Line>* chosen = &region_line(region(from), region(to));
                if (pair != pair_lines_.end() && pair->first == std::pair(from, to)) {
                    const Line& own = (pair++)->second;
                    cluster_.links.push_back({from, to, own.bandwidth_bytes_per_s, own.latency_s});
                } else if (chosen->has_value()) {
                    cluster_.links.push_back(
                        {from, to, (*chosen)->bandwidth_bytes_per_s, (*chosen)->latency_s});
                }
            }
        }
    }

    const TomlFile& file_;
    ClusterSpec& cluster_;
    std::map<std::string, std::size_t> regions_;
    std::size_t coordinator_region_ = 0;
    std::vector<std::size_t> node_regions_;
    std::map<std::string, std::int32_t> nodes_;
    std::vector<std::optional<Line>> region_lines_;  // [from * regions + to]
    std::map<std::pair<std::int32_t, std::int32_t>, Line> pair_lines_;
};

}  // namespace

base::Status read_toml_links(const TomlFile& file, const toml::table& root, ClusterSpec& cluster) {
    return LinkReader(file, cluster).read(root);
}

}  // namespace helix::spec
