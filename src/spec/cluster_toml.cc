#include <fmt/format.h>

#include <map>

#include "spec/catalogue.h"
#include "spec/cluster_file.h"
#include "spec/cluster_toml_links.h"
#include "spec/toml_file.h"
#include "spec/units.h"

namespace helix::spec {
namespace {

class Reader {
  public:
    explicit Reader(std::string file) : file_(std::move(file)) {}

    base::Result<ClusterSpec> read(const toml::table& root) {
        TRY_VOID(
            file_.only(root, "the file", {"name", "coordinator", "types", "machines", "links"}));
        TRY(cluster_.name, file_.text(root, "name", "cluster"));
        TRY_VOID(read_coordinator(root));
        TRY_VOID(read_types(root));
        TRY(const toml::array* machines, file_.list(root, "machines"));
        if (machines == nullptr) return base::invalid(file_.name() + ": has no [[machines]]");
        for (const toml::node& machine : *machines) TRY_VOID(read_machine(machine));
        TRY_VOID(read_toml_links(file_, root, cluster_));
        TRY_VOID(finish_cluster(cluster_, file_.name()));
        return std::move(cluster_);
    }

  private:
    base::Status read_nics(const toml::table& parent, double& in, double& out) const {
        TRY(const double both, file_.quantity(parent, "nic", parse_bandwidth, 0.0));
        if (parent.contains("nic")) in = out = both;
        TRY(in, file_.quantity(parent, "nic_in", parse_bandwidth, in));
        TRY(out, file_.quantity(parent, "nic_out", parse_bandwidth, out));
        return base::Ok{};
    }

    base::Status read_core_share(const toml::table& machine, NodeSpec& read) const {
        const toml::node* said = machine.get("core_share");
        if (said == nullptr) return base::Ok{};
        read.core_share = said->value<double>().value_or(0);
        if (read.core_share > 0 && read.core_share <= 1) return base::Ok{};
        return file_.wrong(*said, "core_share: expected a number above 0, at most 1");
    }

    base::Status read_coordinator(const toml::table& root) {
        TRY(const toml::table* coordinator, file_.table(root, "coordinator"));
        if (coordinator == nullptr) return base::Ok{};
        TRY_VOID(file_.only(*coordinator, "[coordinator]", {"region", "nic", "nic_in", "nic_out"}));
        TRY(cluster_.coordinator_region, file_.text(*coordinator, "region", ""));
        return read_nics(*coordinator, cluster_.coordinator_nic_in_bytes_per_s,
                         cluster_.coordinator_nic_out_bytes_per_s);
    }

    base::Status read_types(const toml::table& root) {
        TRY(const toml::table* types, file_.table(root, "types"));
        if (types == nullptr) return base::Ok{};
        for (const auto& [name, node] : *types) {
            if (!node.is_table())
                return file_.wrong(node, fmt::format("types.{}: expected a table", name.str()));
            const toml::table& type = *node.as_table();
            TRY_VOID(file_.only(type, "a type", {"memory", "nic", "nic_in", "nic_out"}));
            NodeSpec read;
            TRY(read.memory_bytes, file_.quantity(type, "memory", parse_bytes, std::int64_t{0}));
            TRY_VOID(read_nics(type, read.nic_in_bytes_per_s, read.nic_out_bytes_per_s));
            types_.emplace(std::string(name.str()), std::move(read));
        }
        return base::Ok{};
    }

    base::Status read_machine(const toml::node& node) {
        if (!node.is_table())
            return file_.wrong(node, "machines: expected tables, as [[machines]]");
        const toml::table& machine = *node.as_table();
        TRY_VOID(file_.only(machine, "a machine",
                            {"name", "type", "count", "region", "host", "device", "core_share",
                             "role", "memory", "nic", "nic_in", "nic_out", "decode_per_layer",
                             "decode_batch8_per_layer", "prefill_per_token_layer"}));
        TRY(const std::string type, file_.text(machine, "type", ""));
        NodeSpec read;
        const auto known = types_.find(type);
        if (known != types_.end()) read = known->second;
        read.type = type;
        TRY(read.name, file_.text(machine, "name", type));
        if (read.name.empty()) return file_.wrong(node, "a machine needs a name or a type");
        TRY(read.region, file_.text(machine, "region", ""));
        TRY(read.host, file_.text(machine, "host", ""));
        TRY(read.device, file_.text(machine, "device", ""));
        TRY_VOID(read_core_share(machine, read));
        TRY(const std::string role, file_.text(machine, "role", "both"));
        const std::optional<NodeRole> known_role = parse_role(role);
        if (!known_role) {
            return file_.wrong(*machine.get("role"),
                               fmt::format("role: expected {}, not \"{}\"", kRoleNames, role));
        }
        read.role = *known_role;
        TRY(read.memory_bytes, file_.quantity(machine, "memory", parse_bytes, read.memory_bytes));
        if (read.memory_bytes <= 0) TRY_VOID(fill_from_catalogue(node, read));
        TRY_VOID(read_nics(machine, read.nic_in_bytes_per_s, read.nic_out_bytes_per_s));
        TRY(read.decode_s_per_layer,
            file_.quantity(machine, "decode_per_layer", parse_duration, 0.0));
        TRY(read.decode_batch_s_per_layer,
            file_.quantity(machine, "decode_batch8_per_layer", parse_duration, 0.0));
        TRY(read.prefill_s_per_token_layer,
            file_.quantity(machine, "prefill_per_token_layer", parse_duration, 0.0));
        return add_copies(machine, read);
    }

    // Memory, and network where the type has none either, of a machine that only names its type.
    base::Status fill_from_catalogue(const toml::node& where, NodeSpec& read) const {
        const auto known = find_machine_type(read.type);
        if (read.type.empty() || !known.ok()) {
            return file_.wrong(where,
                               fmt::format("machine {}: expected memory, here or in [types.{}]{}",
                                           read.name, read.type.empty() ? "NAME" : read.type,
                                           read.type.empty() ? "" : "; " + known.error().message));
        }
        read.memory_bytes = known->memory_bytes;
        if (read.nic_in_bytes_per_s == 0) read.nic_in_bytes_per_s = known->nic_bytes_per_s;
        if (read.nic_out_bytes_per_s == 0) read.nic_out_bytes_per_s = known->nic_bytes_per_s;
        return base::Ok{};
    }

    base::Status add_copies(const toml::table& machine, const NodeSpec& node) {
        const toml::node* count = machine.get("count");
        if (count == nullptr) {
            cluster_.nodes.push_back(node);
            return base::Ok{};
        }
        const auto number = count->value_exact<std::int64_t>();
        if (!number || *number < 1 || *number > 100'000) {
            return file_.wrong(*count, "count: expected a whole number from 1 to 100000");
        }
        for (std::int64_t k = 0; k < *number; ++k) {
            cluster_.nodes.push_back(node);
            cluster_.nodes.back().name = fmt::format("{}-{}", node.name, k);
        }
        return base::Ok{};
    }

    TomlFile file_;
    ClusterSpec cluster_;
    std::map<std::string, NodeSpec> types_;
};

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

}  // namespace helix::spec
