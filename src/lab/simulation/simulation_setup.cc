#include "lab/simulation/simulation_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "plan/flow/flow_graph.h"
#include "plan/predict/performance.h"
#include "plan/problem/problem.h"
#include "plan/problem/roles.h"
#include "plan/search/throughput_search.h"
#include "spec/json_place.h"
#include "spec/text_file.h"

namespace helix::lab {
namespace {

base::Status match_types(const std::string& path, const spec::ClusterSpec& cluster,
                         spec::PlacementFile& file) {
    const std::size_t n = file.placement.layers.size();
    bool fits = n <= cluster.nodes.size();
    for (std::size_t i = 0; fits && i < file.node_types.size(); ++i) {
        fits = file.node_types[i].empty() || file.node_types[i] == cluster.nodes[i].type;
    }
    if (fits) {  // the file may end before the cluster does
        resize_placement(file.placement, cluster.nodes.size());
        return base::Ok{};
    }
    if (file.node_types.size() != n) {
        return base::invalid(fmt::format("{}: names node {}, but the cluster has nodes 0 to {}",
                                         path, n - 1, cluster.nodes.size() - 1));
    }
    std::vector<std::int32_t> slot(n);
    std::vector<bool> taken(cluster.nodes.size());
    for (std::size_t i = 0; i < n; ++i) {
        std::size_t k = 0;
        while (k < taken.size() && (taken[k] || cluster.nodes[k].type != file.node_types[i])) ++k;
        if (k == taken.size()) {
            return base::invalid(fmt::format("{}: node {} is of type {}; the cluster has too few",
                                             path, i, file.node_types[i]));
        }
        taken[k] = true;
        slot[i] = static_cast<std::int32_t>(k);
    }
    spec::Placement placement;
    placement.layers.resize(cluster.nodes.size());
    if (!file.placement.roles.empty()) placement.roles.resize(cluster.nodes.size());
    for (std::size_t i = 0; i < n; ++i) {
        const auto of_cluster = static_cast<std::size_t>(slot[i]);
        placement.layers[of_cluster] = file.placement.layers[i];
        if (!placement.roles.empty()) placement.roles[of_cluster] = file.placement.roles[i];
    }
    file.placement = std::move(placement);
    const auto moved = [&](std::int32_t& node) {
        if (node != spec::kCoordinator) node = slot[static_cast<std::size_t>(node)];
    };
    for (auto& [from, to] : file.links) {
        moved(from);
        moved(to);
    }
    for (spec::LinkFlow& flow : file.flows) {
        moved(flow.from);
        moved(flow.to);
    }
    return base::Ok{};
}

// How the planner would split requests over a placement that is served under this policy.
std::vector<spec::LinkFlow> planned_split(const Problem& problem, const spec::Placement& placement,
                                          const plan::FlowOptions& flow, plan::Batching batching) {
    const plan::Problem planned{problem.cluster, problem.model, problem.capacities};
    const plan::PerformanceModel model(planned, problem.costs(), {.batching = batching});
    plan::ThroughputOptions options;
    options.models.push_back(&model);
    options.flow = flow;
    auto split = plan::split_placement(planned, placement, options);
    return split ? std::move(split->flows) : std::vector<spec::LinkFlow>{};
}

base::Result<bool> is_replay(const std::string& path) {
    TRY(const std::string text, spec::read_text_file(path));
    TRY(const nlohmann::json document, spec::parse_json(text, path));
    return document.is_object() && document.contains("nodes") && document.contains("start_time_s");
}

}  // namespace

base::Status add_flows(const Problem& problem, spec::PlacementFile& file, plan::Batching batching,
                       bool needed) {
    const auto fits =
        plan::check_placement({problem.cluster, problem.model, problem.capacities}, file.placement);
    if (!fits.ok()) {
        if (needed) return fits.error();
        return base::Ok{};
    }
    plan::FlowOptions options{.partial = true, .convention = plan::Convention::reference};
    if (!file.links.empty()) options.only_links = file.links;
    const plan::FlowPlan flow =
        plan::plan_flow(problem.cluster,
                        plan::build_flow_graph({problem.cluster, problem.model, problem.capacities},
                                               file.placement, options));
    // Of groups that are kept apart (roles) no split is searched for: it would mix them.
    const bool apart = !file.placement.roles.empty() ||
                       plan::keeps_roles(problem.cluster, problem.model, file.placement);
    if (file.flows.empty() && file.links.empty() && !apart) {
        file.flows = planned_split(problem, file.placement, options, batching);
    }
    if (file.flows.empty()) file.flows = flow.links;
    if (needed && file.flows.empty()) {
        return base::invalid(
            "no way leads through all layers in order and back to the coordinator");
    }
    if (!file.max_flow_tokens_per_s) file.max_flow_tokens_per_s = flow.tokens_per_s;
    return base::Ok{};
}

base::Result<spec::PlacementFile> read_simulated_layout(const std::string& path,
                                                        const Problem& problem) {
    TRY(spec::PlacementFile file, spec::read_placement_file(path));
    if (file.n_layers != problem.model.n_layers) {
        return base::invalid(fmt::format("{}: is for {} layers, but {} has {}", path, file.n_layers,
                                         problem.model.name, problem.model.n_layers));
    }
    TRY_VOID(match_types(path, problem.cluster, file));
    TRY_VOID(check_kv_type(path, file, problem));
    return file;
}

base::Result<std::optional<spec::KvType>> layout_kv_type(const std::string& path) {
    TRY(const bool replay, is_replay(path));
    if (replay) return std::optional<spec::KvType>();
    TRY(const spec::PlacementFile file, spec::read_placement_file(path));
    return file.kv_type;
}

sim::HelixSetup helix_setup(const Problem& problem, const spec::Placement& placement,
                            const std::vector<spec::LinkFlow>& flows,
                            const spec::ServingPolicy& policy) {
    sim::HelixSetup setup;
    setup.coordinator.policy = policy;
    setup.cluster = &problem.cluster;
    setup.costs = &problem.costs();
    setup.model = problem.model;
    setup.placement = placement;
    for (std::size_t n = 0; n < placement.roles.size(); ++n) {
        setup.coordinator.roles[problem.cluster.nodes[n].name] = placement.roles[n];
    }
    setup.flows = flows;
    setup.kv_tokens.resize(problem.cluster.nodes.size());
    for (std::size_t n = 0; n < placement.layers.size(); ++n) {
        setup.kv_tokens[n] = problem.capacities.kv_tokens(n, problem.model, placement.layers[n]);
    }
    return setup;
}

void work_as_vllm(sim::HelixSetup& setup, core::PromptsFirst how) {
    constexpr std::int32_t kLeast = 2048;
    const auto longest = static_cast<std::int32_t>(setup.lengths.longest_context()) + 1;
    if (how.max_batched_tokens == 0) {
        how.max_batched_tokens = std::max({kLeast, setup.model.context_length, longest});
    }
    setup.worker.prompts_first = how;
    // Only KV memory bounds how many prompts vLLM has inside.
    setup.coordinator.policy.prefill_target_s = 1e6;
    // One scheduler for each machine of a pipeline.
    setup.coordinator.policy.groups_per_machine = 1;
}

void add_idle_links(const Problem& problem, spec::PlacementFile& file) {
    std::set<std::pair<std::int32_t, std::int32_t>> known;
    for (const spec::LinkFlow& flow : file.flows) known.emplace(flow.from, flow.to);
    const auto takes_part = [&](std::int32_t node) {
        if (node == spec::kCoordinator) return true;
        const auto n = static_cast<std::size_t>(node);
        return n < file.placement.layers.size() && !file.placement.layers[n].empty();
    };
    const auto add = [&](std::int32_t from, std::int32_t to) {
        if (!takes_part(from) || !takes_part(to)) return;
        if (known.emplace(from, to).second) file.flows.push_back({from, to, 0});
    };
    for (const auto& [from, to] : file.links) add(from, to);
    if (!file.links.empty()) return;
    for (const spec::LinkSpec& link : problem.cluster.links) add(link.from, link.to);
}

base::Result<std::string> needs_published_policy(const std::string& path, const Problem& problem,
                                                 const std::string& scheduler) {
    TRY(const bool replay, is_replay(path));
    if (replay) return std::string("the placement is a published run's replay");
    if (scheduler != "separate" || !problem.tables) return std::string();
    TRY(const spec::PlacementFile file, read_simulated_layout(path, problem));
    const auto fits =
        plan::check_placement({problem.cluster, problem.model, problem.capacities}, file.placement);
    return fits.ok() ? std::string() : fits.error().message;
}

base::Result<sim::ReferenceSetup> reference_setup_from(const std::string& path,
                                                       const Problem& problem,
                                                       const ReferenceLayout& layout) {
    TRY(const bool replay, is_replay(path));
    if (replay) {
        return sim::read_replay_setup(path, problem.cluster, *problem.tables);
    }
    TRY(spec::PlacementFile file, read_simulated_layout(path, problem));
    auto setup = reference_setup_from(std::move(file), problem, layout);
    if (!setup.ok()) return base::invalid(path + ": " + setup.error().message);
    return setup;
}

base::Result<sim::ReferenceSetup> reference_setup_from(spec::PlacementFile file,
                                                       const Problem& problem,
                                                       const ReferenceLayout& layout) {
    TRY_VOID(add_flows(problem, file, plan::Batching::reference,
                       layout.scheduler == sim::ReferenceScheduler::max_flow));
    TRY(sim::ReferenceSetup setup,
        sim::reference_setup(problem.cluster, *problem.tables, file.placement, file.links,
                             file.flows, layout.beyond_tables));
    setup.max_flow_tokens_per_s = file.max_flow_tokens_per_s.value_or(0);
    return setup;
}

spec::Placement placement_of(const Problem& problem, const sim::ReferenceSetup& reference) {
    spec::Placement placement;
    placement.layers.resize(problem.cluster.nodes.size());
    for (const sim::ReferenceNode& node : reference.nodes) {
        placement.layers[static_cast<std::size_t>(node.node)] = node.layers;
    }
    return placement;
}

sim::HelixSetup helix_setup_like(const Problem& problem, const sim::ReferenceSetup& reference) {
    std::vector<double> kv_tokens(problem.cluster.nodes.size());
    for (const sim::ReferenceNode& node : reference.nodes) {
        kv_tokens[static_cast<std::size_t>(node.node)] =
            static_cast<double>(node.kv_capacity) / node.layers.size();
    }
    const auto cluster_node = [&](std::int32_t i) {
        return i == spec::kCoordinator ? i : reference.nodes[static_cast<std::size_t>(i)].node;
    };
    const bool planned =
        std::any_of(reference.links.begin(), reference.links.end(),
                    [](const sim::ReferenceLink& link) { return link.flow_tokens_per_s > 0; });
    std::vector<spec::LinkFlow> flows;
    for (const sim::ReferenceLink& link : reference.links) {
        const double flow = planned ? link.flow_tokens_per_s : 1;
        if (flow > 0) flows.push_back({cluster_node(link.from), cluster_node(link.to), flow});
    }
    sim::HelixSetup setup;
    setup.cluster = &problem.cluster;
    setup.costs = &problem.costs();
    setup.model = problem.model;
    setup.placement = placement_of(problem, reference);
    setup.flows = std::move(flows);
    setup.kv_tokens = std::move(kv_tokens);
    setup.max_flow_tokens_per_s = reference.max_flow_tokens_per_s;
    return setup;
}

}  // namespace helix::lab
