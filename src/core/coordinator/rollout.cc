#include "core/coordinator/rollout.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/coordinator/transition_steps.h"
#include "spec/serving_policy.h"

namespace helix::core {
namespace {

// Returns how many machines can compute at the same time along one pipeline. Workers of one host
// that share its cores, or one of its devices, count as one, unless they leave each other some.
std::int32_t machines_in_pipeline(const PipelineGraph& graph, const Fleet& fleet) {
    std::vector<const spec::NodeSpec*> computing;
    for (const PipelineNode& node : graph.nodes()) {
        if (!node.layers.empty()) computing.push_back(&fleet.at(node.worker).joined.node);
    }
    return std::max(1, std::min(spec::computing_at_once(computing), graph.min_depth()));
}

// Returns "w0, w1".
std::string names_text(const std::set<WorkerId>& ids, const Fleet& fleet) {
    std::string text;
    for (const WorkerId id : ids) {
        text += (text.empty() ? "" : ", ") + fleet.name(id);
    }
    return text;
}

}  // namespace

void Rollout::advance_pending(TimePoint now) {
    while (placements_.pending()) {
        const PendingPlacement& next = placements_.transition();
        if (!next.stepping) {
            if (next.changed.empty() && next.epoch != 0) return put_in_force();
            if (next.epoch == 0 && room_.waits_for_room()) return;
            begin_step(now);
        }
        if (!next.loading) {
            for (const WorkerId worker : next.step) {
                if (fleet_.at(worker).kv.requests() > 0) return;
            }
            send_assignments(now);
        }
        for (const WorkerId worker : next.step) {
            if (!fleet_.at(worker).ready) return;
        }
        end_step();
    }
}

void Rollout::empty_step(TimePoint now) {
    if (!placements_.pending()) return;
    const PendingPlacement& next = placements_.transition();
    if (!next.stepping || next.loading) return;
    for (const WorkerId worker : next.step) {
        emptier_.empty_worker(now, worker, next.step_since, MigrationReason::transition);
    }
}

void Rollout::repeat_assignments(TimePoint now) {
    if (!placements_.pending()) return;
    PendingPlacement& next = placements_.transition();
    if (!next.loading || now - next.sent_at < config_.assign_repeat) return;
    next.sent_at = now;
    for (const WorkerId id : next.step) {
        if (fleet_.at(id).ready) continue;
        next.message.layers = fleet_.at(id).layers;
        out_.to_worker(id, next.message);
    }
}

void Rollout::begin_step(TimePoint now) {
    PendingPlacement& next = placements_.transition();
    PipelineParts parts = placements_.present_parts();
    std::vector<TransitionNode> nodes;
    for (std::size_t i = 0; i < parts.nodes.size(); ++i) {
        const PipelineNode& node = parts.nodes[i];
        const bool placed = i < next.workers.size();
        nodes.push_back({node.layers, placed ? next.placement.layers[i] : node.layers,
                         next.changed.contains(node.worker)});
    }
    std::vector<std::pair<std::int32_t, std::int32_t>> links;
    for (const PipelineEdge& edge : parts.edges) links.emplace_back(edge.from, edge.to);
    const TransitionStep step = next_transition_step(config_.n_layers, nodes, links);
    next.stepping = true;
    next.step_since = now;
    bool serving = false;  // one of the step's workers serves now
    std::size_t running = 0;
    for (const std::int32_t i : step.nodes) {
        const WorkerId id = parts.nodes[static_cast<std::size_t>(i)].worker;
        next.step.insert(id);
        serving = serving || (fleet_.at(id).ready && placements_.in_router(id));
        running += fleet_.at(id).kv.requests();
    }
    placements_.note_step();
    next.disrupts = serving && !step.serves;
    if (!serving) return;
    out_.push(Report{names_text(next.step, fleet_) +
                         (next.step.size() > 1 ? " change" : " changes") + " to other layers" +
                         (step.serves ? " while the others serve" : "; service pauses") +
                         (running > 0 ? "; " + std::to_string(running) + " request(s) there" : ""),
                     false});
    if (step.serves) use_router(std::move(parts));
    empty_step(now);
}

void Rollout::end_step() {
    PendingPlacement& next = placements_.transition();
    for (const WorkerId id : next.step) next.changed.erase(id);
    if (!next.changed.empty() && !next.step.empty()) {
        out_.push(Report{names_text(next.step, fleet_) + " loaded; " +
                             std::to_string(next.changed.size()) + " worker(s) are still to change",
                         false});
    }
    next.step.clear();
    next.stepping = next.loading = next.disrupts = false;
    placements_.note_step();
}

void Rollout::send_assignments(TimePoint now) {
    PendingPlacement& next = placements_.transition();
    next.loading = true;
    next.sent_at = now;
    next.epoch = placements_.take_epoch();
    AssignLayers message;
    message.epoch = next.epoch;
    message.model = config_.model;
    message.placement = remember(next, fleet_);
    message.prefill_share = config_.policy.prefill_share;
    message.pipeline_groups = config_.pipeline_groups;
    if (message.pipeline_groups <= 0) {
        PipelineParts parts = placements_.final_parts();
        const PipelineGraph graph(config_.n_layers, std::move(parts.nodes), parts.edges);
        message.pipeline_groups =
            spec::decode_groups(config_.policy, machines_in_pipeline(graph, fleet_));
    }
    // Workers that are in no placement any more may still run requests, so all are told of them.
    for (const auto& [id, worker] : fleet_) {
        message.peers.push_back({id, worker.joined.endpoint, worker.joined.public_key});
    }
    for (std::size_t i = 0; i < next.workers.size(); ++i) {
        const WorkerId id = next.workers[i];
        WorkerState& worker = fleet_.at(id);
        const bool changes = next.step.contains(id);
        // A worker that has not loaded has its turn in a later step.
        if (!changes && next.changed.contains(id) && !worker.ready) continue;
        if (changes) fleet_.assign(id, next.placement.layers[i]);
        message.layers = worker.layers;
        worker.assigned_epoch = message.epoch;
        out_.to_worker(id, message);
    }
    tell_others(message, next);
    placements_.drop_flows_of(next.step);
    next.message = std::move(message);
}

// A worker that is in no placement, since it is drained, serves with its layers again as soon as
// that is called off, next to workers that came meanwhile: it has to know them by then.
void Rollout::tell_others(AssignLayers message, const PendingPlacement& next) {
    for (auto& [id, worker] : fleet_) {
        const auto& placed = next.workers;
        const bool is_told = std::find(placed.begin(), placed.end(), id) != placed.end();
        if (is_told || !worker.ready || worker.layers.empty()) continue;
        message.layers = worker.layers;
        worker.assigned_epoch = message.epoch;
        out_.to_worker(id, message);
    }
}

// Running requests go their ways on, and new ones go by these.
void Rollout::use_router(PipelineParts parts) {
    placements_.use_router(std::move(parts));
    const std::vector<PipelineNode>& nodes = placements_.router()->graph().nodes();
    prompts_.set_workers(std::count_if(
        nodes.begin(), nodes.end(), [](const PipelineNode& node) { return !node.layers.empty(); }));
}

void Rollout::put_in_force() {
    use_router(placements_.final_parts());
    placements_.put_in_force();
    std::string text = "placement " + std::to_string(placements_.epoch()) + " in force:";
    for (const WorkerId id : placements_.pending()->workers) {
        text += " " + fleet_.name(id) + " " + layers_text(fleet_.at(id).layers) + ";";
    }
    text.pop_back();
    restore_.remember_in_force();
    placements_.drop_pending();
    out_.push(Report{text, false, ReportCause::placement_in_force});
}

}  // namespace helix::core
