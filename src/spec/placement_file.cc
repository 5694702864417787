#include "spec/placement_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "spec/json_place.h"
#include "spec/text_file.h"

namespace helix::spec {
namespace {

using nlohmann::json;
constexpr std::int32_t kMaxNodes = 1'000'000;
constexpr double kMaxPrefillTarget_s = 3600;

base::Result<std::int32_t> parse_id(const JsonPlace& place, const std::string& text) {
    std::int32_t id = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
    if (error != std::errc{} || end != text.data() + text.size() || id < 0 || id >= kMaxNodes) {
        return place.complaint(
            fmt::format("expected node ids (numbers from 0) as keys, found \"{}\"", text));
    }
    return id;
}

base::Result<LayerRange> read_range(const JsonPlace& place, std::int32_t n_layers) {
    if (place.value().is_null()) return LayerRange{};
    const std::string expected =
        fmt::format("null or [start, end) with 0 <= start < end <= {}", n_layers);
    if (!place.value().is_array() || place.value().size() != 2) return place.error(expected);
    TRY(const std::int64_t begin, place.element(0).integer());
    TRY(const std::int64_t end, place.element(1).integer());
    if (begin < 0 || begin >= end || end > n_layers) return place.error(expected);
    return LayerRange{static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end)};
}

base::Status read_layers(const JsonPlace& root, PlacementFile& out) {
    TRY(const JsonPlace layers, root.member("layers"));
    TRY_VOID(layers.expect_object());
    for (const auto& [key, unused] : layers.value().items()) {
        TRY(const std::int32_t id, parse_id(layers, key));
        TRY(const LayerRange range, read_range(layers.child(key), out.n_layers));
        const auto slot = static_cast<std::size_t>(id);
        if (out.placement.layers.size() <= slot) out.placement.layers.resize(slot + 1);
        out.placement.layers[slot] = range;
    }
    if (out.placement.layers.empty()) return layers.complaint("names no node");
    return base::Ok{};
}

// The strings under `key`, by node id; empty if the file has none.
base::Status read_words(const JsonPlace& root, const char* key, std::size_t n_nodes,
                        std::vector<std::string>& out) {
    if (!root.has(key)) return base::Ok{};
    const JsonPlace words = root.child(key);
    TRY_VOID(words.expect_object());
    out.resize(n_nodes);
    for (const auto& [node, unused] : words.value().items()) {
        TRY(const std::int32_t id, parse_id(words, node));
        const auto slot = static_cast<std::size_t>(id);
        if (slot >= n_nodes) return words.complaint(fmt::format("node {} is not in layers", id));
        TRY(out[slot], words.child(node).text());
    }
    return base::Ok{};
}

base::Status read_roles(const JsonPlace& root, PlacementFile& out) {
    const std::size_t n_nodes = out.placement.layers.size();
    std::vector<std::string> words;
    TRY_VOID(read_words(root, "node_roles", n_nodes, words));
    if (words.empty()) return base::Ok{};
    out.placement.roles.assign(n_nodes, NodeRole::both);
    for (std::size_t i = 0; i < n_nodes; ++i) {
        if (words[i].empty()) continue;
        const std::optional<NodeRole> role = parse_role(words[i]);
        if (!role) return root.child("node_roles").child(std::to_string(i)).error(kRoleNames);
        out.placement.roles[i] = *role;
    }
    return base::Ok{};
}

// "source" may only be a link's start and "sink" only its end.
base::Result<std::int32_t> read_flow_end(const JsonPlace& place, const char* coordinator,
                                         std::size_t n_nodes) {
    if (place.value() == coordinator) return kCoordinator;
    if (!place.value().is_number())
        return place.error(fmt::format("a node id or \"{}\"", coordinator));
    return place.index(static_cast<std::int64_t>(n_nodes));
}

base::Status read_links(const JsonPlace& root, PlacementFile& out) {
    const std::size_t n_nodes = out.placement.layers.size();
    if (root.has("links")) {
        const JsonPlace links = root.child("links");
        TRY(const std::size_t n_links, links.array_size());
        for (std::size_t l = 0; l < n_links; ++l) {
            const JsonPlace link = links.element(l);
            if (!link.value().is_array() || link.value().size() != 2)
                return link.error("[from, to]");
            TRY(const std::int32_t from, read_flow_end(link.element(0), "source", n_nodes));
            TRY(const std::int32_t to, read_flow_end(link.element(1), "sink", n_nodes));
            out.links.emplace_back(from, to);
        }
    }
    if (!root.has("flows")) return base::Ok{};
    const JsonPlace flows = root.child("flows");
    TRY(const std::size_t n_flows, flows.array_size());
    for (std::size_t f = 0; f < n_flows; ++f) {
        const JsonPlace flow = flows.element(f);
        if (!flow.value().is_array() || flow.value().size() != 3)
            return flow.error("[from, to, tokens per second]");
        LinkFlow read;
        TRY(read.from, read_flow_end(flow.element(0), "source", n_nodes));
        TRY(read.to, read_flow_end(flow.element(1), "sink", n_nodes));
        TRY(read.tokens_per_s, flow.element(2).number());
        if (read.tokens_per_s < 0) return flow.element(2).error("a number not below 0");
        out.flows.push_back(read);
    }
    return base::Ok{};
}

base::Status read_policy(const JsonPlace& root, PlacementFile& out) {
    if (!root.present("policy")) return base::Ok{};
    const JsonPlace policy = root.child("policy");
    TRY_VOID(policy.expect_object());
    ServingPolicy read;
    for (const auto& [key, unused] : policy.value().items()) {
        if (key != "prefill_share" && key != "kv_high_water" && key != "prefill_target_s" &&
            key != "groups_per_machine") {
            return policy.complaint(
                fmt::format("\"{}\" is none of prefill_share, kv_high_water, prefill_target_s, "
                            "groups_per_machine",
                            key));
        }
    }
    TRY(read.prefill_share, policy.number_or("prefill_share", read.prefill_share));
    TRY(read.kv_high_water, policy.number_or("kv_high_water", read.kv_high_water));
    if (!(read.prefill_share > 0)) return policy.child("prefill_share").error("a number above 0");
    if (!(read.kv_high_water > 0 && read.kv_high_water <= 1))
        return policy.child("kv_high_water").error("a number above 0 and at most 1");
    TRY(read.prefill_target_s, policy.number_or("prefill_target_s", read.prefill_target_s));
    if (!(read.prefill_target_s > 0 && read.prefill_target_s <= kMaxPrefillTarget_s)) {
        return policy.child("prefill_target_s")
            .error(fmt::format("a number above 0 and at most {:g}", kMaxPrefillTarget_s));
    }
    TRY(read.groups_per_machine, policy.number_or("groups_per_machine", read.groups_per_machine));
    if (!(read.groups_per_machine > 0 && read.groups_per_machine <= kMostGroupsPerMachine)) {
        return policy.child("groups_per_machine")
            .error(fmt::format("a number above 0 and at most {:g}", kMostGroupsPerMachine));
    }
    out.policy = read;
    return base::Ok{};
}

base::Status read_kv_type(const JsonPlace& root, PlacementFile& out) {
    TRY(const std::string name, root.text_or("kv_type", ""));
    if (name.empty()) return base::Ok{};
    const auto type = parse_kv_type(name);
    if (!type.ok()) return root.child("kv_type").error(kKvTypeNames);
    out.kv_type = *type;
    return base::Ok{};
}

json flow_start_json(std::int32_t node) {
    return node == kCoordinator ? json("source") : json(node);
}
json flow_end_json(std::int32_t node) {
    return node == kCoordinator ? json("sink") : json(node);
}

}  // namespace

base::Result<PlacementFile> parse_placement_json(std::string_view text, const std::string& file) {
    TRY(const json document, parse_json(text, file));
    const JsonPlace root(document, file);
    TRY(const JsonPlace schema, root.member("schema"));
    if (schema.value() != "helix-layout-1") return schema.error("\"helix-layout-1\"");
    PlacementFile out;
    TRY(out.cluster, root.text_or("cluster", ""));
    TRY(out.model, root.text_or("model", ""));
    TRY(out.method, root.text_or("method", ""));
    TRY(const JsonPlace n_layers, root.member("num_layers"));
    TRY(out.n_layers, n_layers.index(100'000));
    TRY_VOID(read_layers(root, out));
    TRY_VOID(read_words(root, "node_types", out.placement.layers.size(), out.node_types));
    TRY_VOID(read_words(root, "node_names", out.placement.layers.size(), out.node_names));
    TRY_VOID(read_roles(root, out));
    TRY_VOID(read_links(root, out));
    TRY_VOID(read_policy(root, out));
    TRY_VOID(read_kv_type(root, out));
    if (root.present("max_flow_tokens_per_s")) {
        TRY(const double flow, root.child("max_flow_tokens_per_s").number());
        out.max_flow_tokens_per_s = flow;
    }
    return out;
}

std::string placement_to_json(const PlacementFile& file) {
    nlohmann::ordered_json out = {{"schema", "helix-layout-1"},
                                  {"cluster", file.cluster},
                                  {"model", file.model},
                                  {"method", file.method},
                                  {"num_layers", file.n_layers}};
    out["layers"] = nlohmann::ordered_json::object();
    for (std::size_t i = 0; i < file.placement.layers.size(); ++i) {
        const LayerRange range = file.placement.layers[i];
        const std::string id = std::to_string(i);
        out["layers"][id] = range.empty() ? json(nullptr) : json{range.begin, range.end};
        if (!file.node_types.empty()) out["node_types"][id] = file.node_types[i];
        if (!file.node_names.empty()) out["node_names"][id] = file.node_names[i];
        if (!file.placement.roles.empty())
            out["node_roles"][id] = to_string(file.placement.roles[i]);
    }
    out["links"] = json::array();
    for (const auto& [from, to] : file.links) {
        out["links"].emplace_back(json::array({flow_start_json(from), flow_end_json(to)}));
    }
    if (!file.flows.empty()) {
        out["flows"] = json::array();
        for (const LinkFlow& flow : file.flows) {
            out["flows"].emplace_back(json::array(
                {flow_start_json(flow.from), flow_end_json(flow.to), flow.tokens_per_s}));
        }
    }
    if (file.policy) out["policy"] = *file.policy;
    if (file.kv_type) out["kv_type"] = to_string(*file.kv_type);
    out["max_flow_tokens_per_s"] =
        file.max_flow_tokens_per_s ? json(*file.max_flow_tokens_per_s) : json(nullptr);
    return out.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

base::Result<PlacementFile> read_placement_file(const std::string& path) {
    TRY(const std::string text, read_text_file(path));
    return parse_placement_json(text, path);
}

base::Status write_placement_file(const std::string& path, const PlacementFile& file) {
    return write_text_file(path, placement_to_json(file));
}

}  // namespace helix::spec
