#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>

#include "spec/cluster_file.h"
#include "spec/units.h"

namespace helix::spec {
namespace {

// What a pair of machines may have.
struct Line {
    double bandwidth_bytes_per_s = 0;
    double latency_s = 0;
    auto operator<=>(const Line&) const = default;
};

class Reader {
  public:
    explicit Reader(std::string file) : file_(std::move(file)) {}

    base::Result<ClusterSpec> read(const toml::table& root) {
        TRY_VOID(only(root, "the file", {"name", "coordinator", "types", "machines", "links"}));
        TRY(cluster_.name, text(root, "name", "cluster"));
        TRY_VOID(read_coordinator(root));
        TRY_VOID(read_types(root));
        TRY(const toml::array* machines, list(root, "machines"));
        if (machines == nullptr) return base::invalid(file_ + ": has no [[machines]]");
        for (const toml::node& machine : *machines) TRY_VOID(read_machine(machine));
        TRY_VOID(read_links(root));
        TRY_VOID(finish_cluster(cluster_, file_));
        return std::move(cluster_);
    }

  private:
    base::Error wrong(const toml::node& where, std::string_view what) const {
        return base::invalid(fmt::format("{}:{}: {}", file_, where.source().begin.line, what));
    }

    base::Status only(const toml::table& table, std::string_view owner,
                      std::initializer_list<std::string_view> keys) const {
        for (const auto& [key, value] : table) {
            if (std::find(keys.begin(), keys.end(), key.str()) != keys.end()) continue;
            return wrong(value, fmt::format("\"{}\" is not a key of {}; known are: {}", key.str(),
                                            owner, fmt::join(keys, ", ")));
        }
        return base::Ok{};
    }

    base::Result<const toml::table*> table(const toml::table& parent, std::string_view key) const {
        const toml::node* node = parent.get(key);
        if (node == nullptr) return static_cast<const toml::table*>(nullptr);
        if (!node->is_table()) return wrong(*node, fmt::format("{}: expected a table", key));
        return node->as_table();
    }

    base::Result<const toml::array*> list(const toml::table& parent, std::string_view key) const {
        const toml::node* node = parent.get(key);
        if (node == nullptr) return static_cast<const toml::array*>(nullptr);
        if (!node->is_array()) return wrong(*node, fmt::format("{}: expected a list", key));
        return node->as_array();
    }

    base::Result<std::string> text(const toml::table& parent, std::string_view key,
                                   std::string otherwise) const {
        const toml::node* node = parent.get(key);
        if (node == nullptr) return otherwise;
        if (!node->is_string()) return wrong(*node, fmt::format("{}: expected a string", key));
        return node->as_string()->get();
    }

    // A quantity with its unit, read by one of units.h.
    template <typename Value>
    base::Result<Value> quantity(const toml::table& parent, std::string_view key,
                                 base::Result<Value> (*parse)(std::string_view),
                                 Value otherwise) const {
        const toml::node* node = parent.get(key);
        if (node == nullptr) return otherwise;
        if (!node->is_string())
            return wrong(*node, fmt::format("{}: expected a string with a unit", key));
        const auto parsed = parse(node->as_string()->get());
        if (!parsed.ok()) return wrong(*node, fmt::format("{}: {}", key, parsed.error().message));
        return *parsed;
    }

    base::Status read_nics(const toml::table& parent, double& in, double& out) const {
        TRY(const double both, quantity(parent, "nic", parse_bandwidth, 0.0));
        if (parent.contains("nic")) in = out = both;
        TRY(in, quantity(parent, "nic_in", parse_bandwidth, in));
        TRY(out, quantity(parent, "nic_out", parse_bandwidth, out));
        return base::Ok{};
    }

    base::Status read_coordinator(const toml::table& root) {
        TRY(const toml::table* coordinator, table(root, "coordinator"));
        if (coordinator == nullptr) return base::Ok{};
        TRY_VOID(only(*coordinator, "[coordinator]", {"region", "nic", "nic_in", "nic_out"}));
        TRY(coordinator_region_, text(*coordinator, "region", ""));
        return read_nics(*coordinator, cluster_.coordinator_nic_in_bytes_per_s,
                         cluster_.coordinator_nic_out_bytes_per_s);
    }

    base::Status read_types(const toml::table& root) {
        TRY(const toml::table* types, table(root, "types"));
        if (types == nullptr) return base::Ok{};
        for (const auto& [name, node] : *types) {
            if (!node.is_table())
                return wrong(node, fmt::format("types.{}: expected a table", name.str()));
            const toml::table& type = *node.as_table();
            TRY_VOID(only(type, "a type", {"memory", "nic", "nic_in", "nic_out"}));
            NodeSpec read;
            TRY(read.memory_bytes, quantity(type, "memory", parse_bytes, std::int64_t{0}));
            TRY_VOID(read_nics(type, read.nic_in_bytes_per_s, read.nic_out_bytes_per_s));
            types_.emplace(std::string(name.str()), std::move(read));
        }
        return base::Ok{};
    }

    base::Status read_machine(const toml::node& node) {
        if (!node.is_table()) return wrong(node, "machines: expected tables, as [[machines]]");
        const toml::table& machine = *node.as_table();
        TRY_VOID(
            only(machine, "a machine",
                 {"name", "type", "count", "region", "host", "memory", "nic", "nic_in", "nic_out",
                  "decode_per_layer", "decode_batch8_per_layer", "prefill_per_token_layer"}));
        TRY(const std::string type, text(machine, "type", ""));
        NodeSpec read;
        const auto known = types_.find(type);
        if (known != types_.end()) read = known->second;
        read.type = type;
        TRY(read.name, text(machine, "name", type));
        if (read.name.empty()) return wrong(node, "a machine needs a name or a type");
        TRY(read.region, text(machine, "region", ""));
        TRY(read.host, text(machine, "host", ""));
        TRY(read.memory_bytes, quantity(machine, "memory", parse_bytes, read.memory_bytes));
        if (read.memory_bytes <= 0) {
            return wrong(node, fmt::format("machine {}: expected memory, here or in [types.{}]",
                                           read.name, type.empty() ? "NAME" : type));
        }
        TRY_VOID(read_nics(machine, read.nic_in_bytes_per_s, read.nic_out_bytes_per_s));
        TRY(read.decode_s_per_layer, quantity(machine, "decode_per_layer", parse_duration, 0.0));
        TRY(read.decode_batch_s_per_layer,
            quantity(machine, "decode_batch8_per_layer", parse_duration, 0.0));
        TRY(read.prefill_s_per_token_layer,
            quantity(machine, "prefill_per_token_layer", parse_duration, 0.0));
        return add_copies(machine, read);
    }

    base::Status add_copies(const toml::table& machine, const NodeSpec& node) {
        const toml::node* count = machine.get("count");
        if (count == nullptr) {
            cluster_.nodes.push_back(node);
            return base::Ok{};
        }
        const auto number = count->value_exact<std::int64_t>();
        if (!number || *number < 1 || *number > 100'000) {
            return wrong(*count, "count: expected a whole number from 1 to 100000");
        }
        for (std::int64_t k = 0; k < *number; ++k) {
            cluster_.nodes.push_back(node);
            cluster_.nodes.back().name = fmt::format("{}-{}", node.name, k);
        }
        return base::Ok{};
    }

    base::Result<Line> line(const toml::table& parent) const {
        for (const char* key : {"bandwidth", "latency"}) {
            if (!parent.contains(key)) return wrong(parent, fmt::format("link: has no {}", key));
        }
        Line read;
        TRY(read.bandwidth_bytes_per_s, quantity(parent, "bandwidth", parse_bandwidth, 0.0));
        TRY(read.latency_s, quantity(parent, "latency", parse_duration, 0.0));
        if (read.bandwidth_bytes_per_s <= 0) return wrong(parent, "bandwidth: must be above 0");
        return read;
    }

    base::Result<std::optional<Line>> common_line(const toml::table& links, const char* key) const {
        TRY(const toml::table* found, table(links, key));
        if (found == nullptr) return std::optional<Line>{};
        TRY_VOID(only(*found, key, {"bandwidth", "latency"}));
        TRY(const Line read, line(*found));
        return std::optional<Line>{read};
    }

    // The two strings of between = [..].
    base::Result<std::pair<std::string, std::string>> between(const toml::table& entry) const {
        TRY(const toml::array* ends, list(entry, "between"));
        if (ends == nullptr || ends->size() != 2 || !(*ends)[0].is_string() ||
            !(*ends)[1].is_string()) {
            return wrong(entry, "between: expected two names, as between = [\"a\", \"b\"]");
        }
        return std::pair((*ends)[0].as_string()->get(), (*ends)[1].as_string()->get());
    }

    base::Result<std::int32_t> end_named(const toml::node& where, const std::string& name) const {
        if (name == "coordinator") return kCoordinator;
        for (std::size_t i = 0; i < cluster_.nodes.size(); ++i) {
            if (cluster_.nodes[i].name == name) return static_cast<std::int32_t>(i);
        }
        return wrong(where,
                     fmt::format("\"{}\" is no machine of this file, nor \"coordinator\"", name));
    }

    std::string region(std::int32_t node) const {
        return node == kCoordinator ? coordinator_region_
                                    : cluster_.nodes[static_cast<std::size_t>(node)].region;
    }

    base::Status read_region_lines(const toml::table& links) {
        TRY(const toml::array* entries, list(links, "regions"));
        if (entries == nullptr) return base::Ok{};
        for (const toml::node& node : *entries) {
            if (!node.is_table()) return wrong(node, "links.regions: expected tables");
            TRY_VOID(only(*node.as_table(), "links.regions", {"between", "bandwidth", "latency"}));
            TRY(const auto ends, between(*node.as_table()));
            for (const std::string& name : {ends.first, ends.second}) {
                bool exists = name == coordinator_region_;
                for (const NodeSpec& machine : cluster_.nodes)
                    exists = exists || machine.region == name;
                if (!exists)
                    return wrong(node, fmt::format("no machine is in region \"{}\"", name));
            }
            TRY(const Line read, line(*node.as_table()));
            region_lines_[{ends.first, ends.second}] = read;
            region_lines_[{ends.second, ends.first}] = read;
        }
        return base::Ok{};
    }

    base::Status read_pair_lines(const toml::table& links) {
        TRY(const toml::array* entries, list(links, "pairs"));
        if (entries == nullptr) return base::Ok{};
        for (const toml::node& node : *entries) {
            if (!node.is_table()) return wrong(node, "links.pairs: expected tables");
            const toml::table& entry = *node.as_table();
            TRY_VOID(only(entry, "links.pairs", {"between", "from", "to", "bandwidth", "latency"}));
            TRY(const Line read, line(entry));
            const bool one_way = entry.contains("from") || entry.contains("to");
            if (one_way && entry.contains("between"))
                return wrong(node, "has both between and from/to");
            std::pair<std::string, std::string> names;
            if (one_way) {
                TRY(names.first, text(entry, "from", ""));
                TRY(names.second, text(entry, "to", ""));
            } else {
                TRY(names, between(entry));
            }
            TRY(const std::int32_t from, end_named(node, names.first));
            TRY(const std::int32_t to, end_named(node, names.second));
            if (from == to) return wrong(node, "leads from a machine to itself");
            bool fresh = pair_lines_.emplace(std::pair(from, to), read).second;
            if (!one_way) fresh = pair_lines_.emplace(std::pair(to, from), read).second && fresh;
            if (!fresh) return wrong(node, "this pair is given twice");
        }
        return base::Ok{};
    }

    base::Status read_links(const toml::table& root) {
        TRY(const toml::table* links, table(root, "links"));
        if (links == nullptr) return base::Ok{};
        TRY_VOID(only(*links, "[links]", {"default", "same_region", "regions", "pairs"}));
        TRY(const std::optional<Line> fallback, common_line(*links, "default"));
        TRY(const std::optional<Line> same_region, common_line(*links, "same_region"));
        TRY_VOID(read_region_lines(*links));
        TRY_VOID(read_pair_lines(*links));
        const auto n = static_cast<std::int32_t>(cluster_.nodes.size());
        for (std::int32_t from = kCoordinator; from < n; ++from) {
            for (std::int32_t to = kCoordinator; to < n; ++to) {
                if (from == to) continue;
                std::optional<Line> chosen = fallback;
                const std::pair regions(region(from), region(to));
                if (same_region && !regions.first.empty() && regions.first == regions.second)
                    chosen = same_region;
                if (const auto found = region_lines_.find(regions); found != region_lines_.end()) {
                    chosen = found->second;
                }
                if (const auto found = pair_lines_.find({from, to}); found != pair_lines_.end()) {
                    chosen = found->second;
                }
                if (chosen)
                    cluster_.links.push_back(
                        {from, to, chosen->bandwidth_bytes_per_s, chosen->latency_s});
            }
        }
        return base::Ok{};
    }

    std::string file_;
    ClusterSpec cluster_;
    std::string coordinator_region_;
    std::map<std::string, NodeSpec> types_;
    std::map<std::pair<std::string, std::string>, Line> region_lines_;
    std::map<std::pair<std::int32_t, std::int32_t>, Line> pair_lines_;
};

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

std::string line_text(const Line& line, const char* separator) {
    return fmt::format("bandwidth = \"{}\"{}latency = \"{}\"",
                       format_bandwidth(line.bandwidth_bytes_per_s, true), separator,
                       format_duration(line.latency_s, true));
}

void write_links(std::string& out, const ClusterSpec& cluster) {
    if (cluster.links.empty()) return;
    std::map<std::pair<std::int32_t, std::int32_t>, Line> lines;
    std::map<Line, std::size_t> uses;
    for (const LinkSpec& link : cluster.links) {
        const Line line{link.bandwidth_bytes_per_s, link.latency_s};
        lines.emplace(std::pair(link.from, link.to), line);
        ++uses[line];
    }
    out += "\n[links]\n";
    std::optional<Line> common;
    const std::size_t n = cluster.nodes.size();
    if (lines.size() == n * (n + 1)) {  // all pairs, the coordinator among them
        common = std::max_element(uses.begin(), uses.end(), [](const auto& a, const auto& b) {
                     return a.second < b.second;
                 })->first;
        out += fmt::format("default = {{{}}}\n", line_text(*common, ", "));
    }
    const auto name = [&](std::int32_t node) {
        return quoted(node == kCoordinator ? "coordinator"
                                           : cluster.nodes[static_cast<std::size_t>(node)].name);
    };
    for (const auto& [ends, line] : lines) {
        if (common && line == *common) continue;
        const auto back = lines.find({ends.second, ends.first});
        const bool same = back != lines.end() && back->second == line;
        if (same && ends.first > ends.second) continue;
        out += "\n[[links.pairs]]\n";
        out += same ? fmt::format("between = [{}, {}]\n", name(ends.first), name(ends.second))
                    : fmt::format("from = {}\nto = {}\n", name(ends.first), name(ends.second));
        out += line_text(line, "\n") + "\n";
    }
}

}  // namespace

base::Result<ClusterSpec> parse_cluster_toml(std::string_view text, const std::string& file) {
    try {
        const toml::table root = toml::parse(text, file);
        return Reader(file).read(root);
    } catch (const toml::parse_error& error) {
        return base::invalid(fmt::format("{}:{}: is not TOML: {}", file, error.source().begin.line,
                                         error.description()));
    }
}

std::string cluster_to_toml(const ClusterSpec& cluster) {
    std::string out = fmt::format("name = {}\n", quoted(cluster.name));
    if (cluster.coordinator_nic_in_bytes_per_s > 0 || cluster.coordinator_nic_out_bytes_per_s > 0) {
        out += "\n[coordinator]\n";
        write_nics(out, cluster.coordinator_nic_in_bytes_per_s,
                   cluster.coordinator_nic_out_bytes_per_s);
    }
    for (const NodeSpec& node : cluster.nodes) write_machine(out, node);
    write_links(out, cluster);
    return out;
}

}  // namespace helix::spec
