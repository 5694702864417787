#include "api/cluster_state.h"

#include <utility>

#include "api/nodes.h"
#include "core/protocol/describe.h"

namespace helix::api {
namespace {

using nlohmann::json;

json layer_ends_json(core::LayerRange layers) {
    return json::array({layers.begin, layers.end});
}

// Workers of one machine share a host, which is shown as the id of the first of them: the machine's
// own id is not told.
std::uint32_t host_of(const core::ClusterView& view, const core::WorkerView& worker) {
    for (const core::WorkerView& other : view.workers) {
        if (!worker.node.host.empty() && other.node.host == worker.node.host) {
            return other.worker.value;
        }
    }
    return worker.worker.value;
}

// Workers that share what computes, in the same way.
std::uint32_t processors_of(const core::ClusterView& view, const core::WorkerView& worker) {
    for (const core::WorkerView& other : view.workers) {
        if (spec::share_processors(worker.node, other.node)) return other.worker.value;
    }
    return worker.worker.value;
}

json worker_json(const core::ClusterView& view, const core::WorkerView& worker) {
    json out = {{"id", worker.worker.value},
                {"host", host_of(view, worker)},
                {"processors", processors_of(view, worker)},
                {"core_share", worker.node.core_share},
                {"name", worker.node.name},
                {"type", worker.node.type},
                {"region", worker.node.region},
                {"role", spec::to_string(worker.node.role)},
                {"state", node_state(worker)},
                {"incarnation", worker.incarnation},
                {"memory_bytes", worker.node.memory_bytes},
                {"layers", layer_ends_json(worker.layers)},
                {"ready", worker.ready},
                {"kv_pages", worker.total_pages},
                {"kv_pages_used", worker.used_pages},
                {"kv_pages_estimated", worker.estimated_pages},
                {"requests", worker.running},
                {"batches", worker.batches},
                {"rows", worker.rows},
                {"busy_s", static_cast<double>(worker.busy_ns) * 1e-9},
                {"slowdown", worker.slowdown}};
    if (!worker.drain_refused.empty()) out["drain_refused"] = worker.drain_refused;
    if (!worker.drain_waits.empty()) out["drain_waits"] = worker.drain_waits;
    return out;
}

// Counts of one reason, or of all.
template <typename CountOf>
json outcomes_json(const CountOf& count) {
    using Phase = core::MigrationPhase;
    json given_up;
    for (const Phase phase : {Phase::reserving, Phase::copying, Phase::last_round})
        given_up[std::string(core::name_of(phase))] = count(phase);
    return {{"committed", count(Phase::committed)}, {"given_up", std::move(given_up)}};
}

json migrations_json(const core::ClusterView& view) {
    json out = outcomes_json([&](core::MigrationPhase phase) { return view.migrations.of(phase); });
    out["under_way"] = view.migrating;
    for (std::size_t r = 0; r < core::kMigrationReasons; ++r) {
        const auto reason = static_cast<core::MigrationReason>(r);
        out["by_reason"][std::string(core::name_of(reason))] = outcomes_json(
            [&](core::MigrationPhase phase) { return view.migrations.of(reason, phase); });
    }
    return out;
}

json flows_json(const core::ClusterView& view) {
    json flows = json::array();
    for (const spec::LinkFlow& flow : view.flows) {
        flows.push_back(
            {{"from", flow.from}, {"to", flow.to}, {"tokens_per_s", flow.tokens_per_s}});
    }
    return flows;
}

json links_json(const core::ClusterView& view) {
    json links = json::array();
    for (const core::LinkRows& link : view.link_rows) {
        links.push_back({{"from", link.from}, {"to", link.to}, {"rows", link.rows}});
    }
    return links;
}

json cut_json(const PlanFigures& plan) {
    using Kind = PlanFigures::CutKind;
    json cut = json::array();
    for (const PlanFigures::CutPart& part : plan.cut) {
        switch (part.kind) {
            case Kind::machine:
                cut.push_back({{"kind", "machine"}, {"worker", part.from}});
                break;
            case Kind::network_in:
                cut.push_back({{"kind", "network_in"}, {"worker", part.from}});
                break;
            case Kind::network_out:
                cut.push_back({{"kind", "network_out"}, {"worker", part.from}});
                break;
            case Kind::link:
                cut.push_back({{"kind", "link"}, {"from", part.from}, {"to", part.to}});
                break;
            case Kind::trunk:
                cut.push_back({{"kind", "trunk"},
                               {"from_region", part.from_region},
                               {"to_region", part.to_region}});
                break;
        }
    }
    return cut;
}

json plan_json(const PlanFigures& plan) {
    json nodes = json::array();
    for (const PlanFigures::Node& node : plan.nodes) {
        nodes.push_back({{"worker", node.worker.value},
                         {"most_tokens_per_s", node.most_tokens_per_s},
                         {"flow_tokens_per_s", node.flow_tokens_per_s}});
    }
    return {{"method", plan.method},
            {"max_flow_tokens_per_s", plan.max_flow_tokens_per_s},
            {"upper_bound_tokens_per_s", plan.upper_bound_tokens_per_s},
            {"gap", plan.gap},
            {"proven_optimal", plan.proven_optimal},
            {"limited_by", plan.limited_by},
            {"min_cut", cut_json(plan)},
            {"nodes", std::move(nodes)}};
}

json drained_away_json(const core::ClusterView& view) {
    json away = json::array();
    for (const core::RememberedDrain& drain : view.drained_away) {
        away.push_back({{"name", drain.worker}, {"remove", drain.remove}});
    }
    return away;
}

}  // namespace

nlohmann::json cluster_state(const core::ClusterView& view, const std::optional<PlanFigures>& plan,
                             const ServedShape& shape) {
    json workers = json::array();
    for (const core::WorkerView& worker : view.workers)
        workers.push_back(worker_json(view, worker));
    json links_down = json::array();
    for (const auto& [one, other] : view.links_down) {
        links_down.push_back({one.value, other.value});
    }
    const bool planned = plan.has_value() && plan->epoch == view.epoch && view.epoch != 0;
    return {{"time_s", static_cast<double>(view.taken.ns) * 1e-9},
            {"model", shape.model},
            {"n_layers", shape.n_layers},
            {"serving", view.serving},
            {"links_down", std::move(links_down)},
            {"drained_away", drained_away_json(view)},
            {"epoch", view.epoch},
            {"waiting", view.waiting},
            {"running", view.running},
            {"swapped", view.swapped},
            {"finished", view.finished},
            {"failed", view.failed},
            {"rejected", view.rejected},
            {"preemptions", view.preemptions},
            {"roles_kept", view.roles_kept ? json(*view.roles_kept) : json()},
            {"failovers", view.failovers},
            {"migrations", migrations_json(view)},
            {"plan", planned ? plan_json(*plan) : json()},
            {"workers", std::move(workers)},
            {"flows", flows_json(view)},
            {"links", links_json(view)}};
}

}  // namespace helix::api
