// Workers that come and go, and the placements that follow.

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/planted_bug.h"
#include "base/random.h"
#include "core/coordinator_state.h"

namespace helix::core {
namespace {

std::string layers_text(LayerRange layers) {
    if (layers.empty()) return "no layers";
    return "layers " + std::to_string(layers.begin) + "-" + std::to_string(layers.end - 1);
}

double total_flow(const std::vector<spec::LinkFlow>& flows) {
    double sum = 0;
    for (const auto& flow : flows) {
        if (flow.from == spec::kCoordinator) sum += flow.tokens_per_s;
    }
    return sum;
}

std::string going_on_text(std::size_t requests) {
    if (requests == 0) return "";
    return "; " + std::to_string(requests) +
           (requests == 1 ? " request goes on elsewhere" : " requests go on elsewhere");
}

// Is there such a sequence at the workers?
bool runs(const RequestState& state, const SequenceKey& key) {
    const bool moves = state.migration && state.migration->attempt == key.attempt;
    if (moves) return key.member == 0;
    if (!state.running || state.attempt != key.attempt) return false;
    if (state.moved && key.member == 0) return true;
    if (!state.group || !state.group->forked) return key.member == 0;
    return state.group->find(key.member) != nullptr;
}

// Machines that can compute at the same time along one pipeline: workers of one host share its
// cores.
std::int32_t machines_in_pipeline(const PipelineGraph& graph,
                                  const std::map<WorkerId, WorkerState>& workers) {
    std::set<std::string> hosts;
    std::int32_t nameless = 0;
    for (const PipelineNode& node : graph.nodes()) {
        if (node.layers.empty()) continue;
        const std::string& host = workers.at(node.worker).joined.node.host;
        if (host.empty()) {
            ++nameless;
        } else {
            hosts.insert(host);
        }
    }
    const auto machines = static_cast<std::int32_t>(hosts.size()) + nameless;
    return std::max(1, std::min(machines, graph.min_depth()));
}

}  // namespace

bool Coordinator::Impl::usable(WorkerId worker, LayerRange layers) const {
    const auto it = workers.find(worker);
    return it != workers.end() && it->second.ready && it->second.layers.contains(layers);
}

bool Coordinator::Impl::in_router(WorkerId worker) const {
    if (router == nullptr) return false;
    const PipelineGraph& graph = router->graph();
    const std::int32_t node = graph.node_of(worker);
    return node >= 0 && !graph.nodes()[static_cast<std::size_t>(node)].layers.empty();
}

// ---- joining and leaving
// --------------------------------------------------------------------------

void Coordinator::Impl::on(TimePoint now, const WorkerJoined& event,
                           std::vector<CoordinatorAction>& actions) {
    std::uint64_t& newest = incarnations[event.worker];
    const bool old = event.incarnation <= newest;  // a hello that comes late
    if (old && !base::planted(base::PlantedBug::old_incarnation_joins)) return;
    newest = event.incarnation;
    if (workers.contains(event.worker)) lose_worker(now, event.worker, "was restarted", actions);
    WorkerState state;
    state.joined = event;
    workers.emplace(event.worker, std::move(state));
    actions.push_back(Report{"worker " + event.node.name + " joined", false});
    want_plan(now);
}

void Coordinator::Impl::on(TimePoint now, const WorkerLost& event,
                           std::vector<CoordinatorAction>& actions) {
    if (!workers.contains(event.worker)) return;
    lose_worker(now, event.worker, event.reason, actions);
    want_plan(now);
}

// Its requests go on elsewhere: what they computed is computed again, what was streamed stands.
void Coordinator::Impl::lose_worker(TimePoint now, WorkerId worker, const std::string& reason,
                                    std::vector<CoordinatorAction>& actions) {
    const WorkerState& gone = workers.at(worker);
    const std::string name = gone.joined.node.name;
    workers.at(worker).gone = true;
    abort_migrations_to(step_at, worker, "worker " + name + " " + reason, actions);
    std::vector<RequestId> hit;
    for (const auto& [id, pages] : gone.kv.charges()) hit.push_back(id);
    actions.push_back(Report{"worker " + name + " " + reason + going_on_text(hit.size()), true});
    for (const RequestId id : hit) fail_over(now, requests.at(id), actions);
    prefixes.clear();
    if (in_router(worker)) flow_in_force = 0;  // whatever can replace it is a gain
    capacity_cache.reset();
    workers.erase(worker);
    last_preemption.erase(worker);
    outbox.erase(worker);
    if (pending && std::find(pending->workers.begin(), pending->workers.end(), worker) !=
                       pending->workers.end()) {
        pending.reset();
    }
}

void Coordinator::Impl::on(TimePoint now, const FromWorker& event,
                           std::vector<CoordinatorAction>& actions) {
    const auto it = workers.find(event.worker);
    if (it == workers.end()) return;  // lost meanwhile
    WorkerState& worker = it->second;
    if (const auto* tokens = std::get_if<TokensProduced>(&event.message)) {
        on_tokens(now, event.worker, *tokens, actions);
    } else if (const auto* ready = std::get_if<LayersReady>(&event.message)) {
        if (ready->epoch != worker.assigned_epoch || ready->layers != worker.layers) return;
        if (worker.kv.requests() == 0) {
            worker.kv.reset(ready->total_pages);
            worker.swap_total = ready->swap_pages;
        }
        worker.ready = true;
        worker.kv_format = ready->kv_format;
        capacity_cache.reset();
    } else if (const auto* failure = std::get_if<LayersFailed>(&event.message)) {
        if (failure->epoch != worker.assigned_epoch) return;
        actions.push_back(Report{"worker " + worker.joined.node.name + " could not load " +
                                     layers_text(worker.layers) + ": " + failure->reason,
                                 true});
        worker.failed = true;
        worker.ready = false;
        worker.layers = {};
        pending.reset();
        want_plan(now);
    } else if (const auto* stuck = std::get_if<SequenceStuck>(&event.message)) {
        on_stuck(now, event.worker, *stuck, actions);
    } else if (const auto* reserved = std::get_if<KvReserved>(&event.message)) {
        on_reserved(now, event.worker, *reserved, actions);
    } else if (const auto* arrived = std::get_if<KvArrived>(&event.message)) {
        on_arrived(now, event.worker, *arrived, actions);
    } else if (const auto* refused = std::get_if<KvRefused>(&event.message)) {
        on_refused(now, event.worker, *refused, actions);
    } else if (const auto* lost = std::get_if<PeerLost>(&event.message)) {
        on_peer_lost(now, event.worker, lost->peer, actions);
    } else {
        on_report(now, event.worker, std::get<WorkerReport>(event.message), actions);
    }
}

void Coordinator::Impl::on_report(TimePoint now, WorkerId worker, const WorkerReport& message,
                                  std::vector<CoordinatorAction>& actions) {
    WorkerState& state = workers.at(worker);
    state.last_report = message;
    state.reported_at = now;
    if (router != nullptr) router->on_report(worker, message);
    if (state.kv.requests() > 0) state.kv.set_reported(message.used_pages);
    FreeSequences strays;
    for (const SequenceKey& key : message.held) {
        const auto it = requests.find(key.request);
        const bool ours = it != requests.end() && runs(it->second, key);
        if (!ours) strays.keys.push_back(key);
    }
    if (!strays.keys.empty()) actions.push_back(SendToWorker{worker, std::move(strays)});
}

// ---- planning
// -------------------------------------------------------------------------------------

void Coordinator::Impl::want_plan(TimePoint now) {
    plan_wanted = true;
    plan_wanted_since = now;
}

void Coordinator::Impl::on(TimePoint now, const CoordinatorTick&,
                           std::vector<CoordinatorAction>& actions) {
    maybe_plan(now, actions);
    repeat_assignments(now, actions);
    end_late_drafts(now);
    end_late_migrations(now, actions);
    end_stalled(now, actions);
    end_unserved(now, actions);
}

void Coordinator::Impl::maybe_plan(TimePoint now, std::vector<CoordinatorAction>& actions) {
    if (!plan_wanted || plan_running || (pending && pending->loading)) return;
    if (now - plan_wanted_since < config.settle) return;
    PlanCluster plan;
    std::map<std::int32_t, std::int32_t> index;  // worker id -> node index
    index[spec::kCoordinator] = spec::kCoordinator;
    for (const auto& [id, worker] : workers) {
        if (worker.failed) continue;
        index[static_cast<std::int32_t>(id.value)] = static_cast<std::int32_t>(plan.workers.size());
        plan.workers.push_back(id);
        plan.cluster.nodes.push_back(worker.joined.node);
    }
    const std::int32_t enough = epoch_in_force == 0 ? std::max(1, config.min_workers) : 1;
    if (static_cast<std::int32_t>(plan.workers.size()) < enough) return;
    for (const auto& [id, worker] : workers) {
        for (spec::LinkSpec link : worker.joined.links) {
            const auto from = index.find(link.from);
            const auto to = index.find(link.to);
            if (from == index.end() || to == index.end()) continue;  // a peer that left
            link.from = from->second;
            link.to = to->second;
            plan.cluster.links.push_back(link);
        }
    }
    plan_wanted = false;
    plan.plan = next_plan++;
    plan_running = plan.plan;
    plan_workers = plan.workers;
    actions.push_back(std::move(plan));
}

void Coordinator::Impl::on(TimePoint, const NotPlanned& event,
                           std::vector<CoordinatorAction>& actions) {
    if (plan_running != event.plan) return;
    plan_running.reset();
    actions.push_back(Report{"no placement: " + event.reason, true});
}

void Coordinator::Impl::on(TimePoint now, const Planned& event,
                           std::vector<CoordinatorAction>& actions) {
    if (plan_running != event.plan) return;
    plan_running.reset();
    CHECK(event.placement.layers.size() == plan_workers.size());
    PendingPlacement next;
    next.placement = event.placement;
    next.workers = plan_workers;
    next.flows = event.flows;
    for (std::size_t i = 0; i < plan_workers.size(); ++i) {
        const auto it = workers.find(plan_workers[i]);
        if (it == workers.end()) {  // left while we planned
            want_plan(now);
            return;
        }
        if (it->second.layers == event.placement.layers[i] && it->second.ready) continue;
        next.changed.insert(plan_workers[i]);
        if (in_router(plan_workers[i])) next.disrupts = true;
    }
    const bool whole = epoch_in_force != 0 && capacity() > 0;
    if (whole && total_flow(event.flows) < config.switch_gain * flow_in_force) {
        actions.push_back(
            Report{"the placement in force stays: a new one would gain too little", false});
        return;
    }
    pending = std::move(next);
}

// ---- putting a placement in force
// -----------------------------------------------------------------

void Coordinator::Impl::advance_pending(TimePoint now, std::vector<CoordinatorAction>& actions) {
    if (!pending) return;
    if (!pending->loading) {
        for (const WorkerId worker : pending->changed) {
            if (workers.at(worker).kv.requests() > 0) return;  // let its requests finish
        }
        send_assignments(now, actions);
    }
    for (const WorkerId worker : pending->workers) {
        if (!workers.at(worker).ready) return;
    }
    put_in_force(actions);
}

void Coordinator::Impl::send_assignments(TimePoint now, std::vector<CoordinatorAction>& actions) {
    pending->loading = true;
    pending->sent_at = now;
    pending->epoch = next_epoch++;
    pending->router = make_router(*pending);
    AssignLayers message;
    message.epoch = pending->epoch;
    message.pipeline_groups = config.pipeline_groups > 0
                                  ? config.pipeline_groups
                                  : machines_in_pipeline(pending->router->graph(), workers);
    for (const WorkerId id : pending->workers) {
        const WorkerJoined& joined = workers.at(id).joined;
        message.peers.push_back({id, joined.endpoint, joined.public_key});
    }
    for (std::size_t i = 0; i < pending->workers.size(); ++i) {
        WorkerState& worker = workers.at(pending->workers[i]);
        message.layers = pending->placement.layers[i];
        if (pending->changed.contains(pending->workers[i])) worker.ready = false;
        worker.layers = message.layers;
        worker.assigned_epoch = message.epoch;
        capacity_cache.reset();
        actions.push_back(SendToWorker{pending->workers[i], message});
    }
    pending->message = std::move(message);
}

void Coordinator::Impl::repeat_assignments(TimePoint now, std::vector<CoordinatorAction>& actions) {
    if (!pending || !pending->loading || now - pending->sent_at < config.assign_repeat) return;
    pending->sent_at = now;
    for (std::size_t i = 0; i < pending->workers.size(); ++i) {
        if (workers.at(pending->workers[i]).ready) continue;
        pending->message.layers = pending->placement.layers[i];
        actions.push_back(SendToWorker{pending->workers[i], pending->message});
    }
}

// The links of the plan, and behind them the other measured ones.
std::unique_ptr<RequestRouter> Coordinator::Impl::make_router(const PendingPlacement& plan) const {
    std::map<std::int32_t, std::int32_t> index = {{spec::kCoordinator, spec::kCoordinator}};
    std::vector<PipelineNode> nodes;
    for (std::size_t i = 0; i < plan.workers.size(); ++i) {
        index[static_cast<std::int32_t>(plan.workers[i].value)] = static_cast<std::int32_t>(i);
        nodes.push_back({plan.workers[i], plan.placement.layers[i]});
    }
    std::map<std::pair<std::int32_t, std::int32_t>, spec::LinkSpec> links;
    for (const WorkerId id : plan.workers) {
        for (const spec::LinkSpec& link : workers.at(id).joined.links) {
            const auto from = index.find(link.from);
            const auto to = index.find(link.to);
            if (from == index.end() || to == index.end()) continue;  // a peer that left
            links.emplace(std::pair(from->second, to->second), link);
        }
    }
    std::vector<PipelineEdge> edges;
    for (const spec::LinkFlow& flow : plan.flows) {
        const auto link = links.find({flow.from, flow.to});
        edges.push_back({flow.from, flow.to, flow.tokens_per_s, 0, 0});
        if (link == links.end()) continue;
        edges.back().bandwidth_bytes_per_s = link->second.bandwidth_bytes_per_s;
        edges.back().latency_s = link->second.latency_s;
        links.erase(link);
    }
    for (const auto& [ends, link] : links) {
        edges.push_back({ends.first, ends.second, 0, link.bandwidth_bytes_per_s, link.latency_s});
    }
    return config.router({PipelineGraph(config.n_layers, std::move(nodes), edges),
                          base::hash_pair(config.router_seed, plan.epoch)});
}

void Coordinator::Impl::put_in_force(std::vector<CoordinatorAction>& actions) {
    router = std::move(pending->router);
    prefixes.clear();
    for (auto& [id, state] : requests) {
        if (state.running) state.path = router->graph().path(state.pipeline);
        if (state.migration)
            state.migration->path = router->graph().path(state.migration->pipeline);
    }
    flows.clear();
    for (spec::LinkFlow flow : pending->flows) {
        if (flow.tokens_per_s <= 0) continue;
        const auto id = [&](std::int32_t node) {
            if (node == spec::kCoordinator) return node;
            return static_cast<std::int32_t>(
                pending->workers[static_cast<std::size_t>(node)].value);
        };
        flow.from = id(flow.from);
        flow.to = id(flow.to);
        flows.push_back(flow);
    }
    flow_in_force = total_flow(flows);
    const std::vector<PipelineNode>& nodes = router->graph().nodes();
    prompts.set_workers(std::count_if(
        nodes.begin(), nodes.end(), [](const PipelineNode& node) { return !node.layers.empty(); }));
    epoch_in_force = pending->epoch;
    std::string text = "placement " + std::to_string(epoch_in_force) + " in force:";
    for (const WorkerId id : pending->workers) {
        const WorkerState& worker = workers.at(id);
        text += " " + worker.joined.node.name + " " + layers_text(worker.layers) + ";";
    }
    text.pop_back();
    pending.reset();
    capacity_cache.reset();
    actions.push_back(Report{text, false});
}

void Coordinator::Impl::flush_outbox(std::vector<CoordinatorAction>& actions) {
    for (auto& [worker, inputs] : outbox) {
        if (!inputs.inputs.empty()) actions.push_back(SendToWorker{worker, std::move(inputs)});
    }
    outbox.clear();
}

}  // namespace helix::core
