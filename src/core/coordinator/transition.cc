// How a placement is put in force: step by step, so that service goes on where that is possible
// (core/coordinator/transition_steps.h).
//
// The workers of a step are closed: nothing new goes there, and what runs there moves away or
// finishes (empty_worker). Then they load their new layers while the others serve, by a router over
// what all hold at that time. Where no order of steps keeps a complete pipeline, nothing is started
// while the last of them change together, and requests wait in the queue.

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "core/coordinator/coordinator_state.h"
#include "core/coordinator/transition_steps.h"

namespace helix::core {

double total_flow(const std::vector<spec::LinkFlow>& flows) {
    double sum = 0;
    for (const auto& flow : flows) {
        if (flow.from == spec::kCoordinator) sum += flow.tokens_per_s;
    }
    return sum;
}

std::string layers_text(LayerRange layers) {
    if (layers.empty()) return "no layers";
    return "layers " + std::to_string(layers.begin) + "-" + std::to_string(layers.end - 1);
}

namespace {

// Of the largest planned flow: what a link counts that the plan does not use, while it is needed.
constexpr double kUnplannedShare = 0.01;

using Ends = std::pair<std::int32_t, std::int32_t>;

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

// "w0, w1"
std::string names_text(const std::set<WorkerId>& ids,
                       const std::map<WorkerId, WorkerState>& workers) {
    std::string text;
    for (const WorkerId id : ids) {
        text += (text.empty() ? "" : ", ") + workers.at(id).joined.node.name;
    }
    return text;
}

// Of each: its index, by worker id; the coordinator is itself.
std::map<std::int32_t, std::int32_t> index_of(const std::vector<WorkerId>& ids) {
    std::map<std::int32_t, std::int32_t> index = {{spec::kCoordinator, spec::kCoordinator}};
    for (std::size_t i = 0; i < ids.size(); ++i) {
        index[static_cast<std::int32_t>(ids[i].value)] = static_cast<std::int32_t>(i);
    }
    return index;
}

}  // namespace

// ---- steps
// ----------------------------------------------------------------------------------------

void Coordinator::Impl::advance_pending(TimePoint now, std::vector<CoordinatorAction>& actions) {
    while (pending) {
        if (!pending->stepping) {
            if (pending->changed.empty() && pending->epoch != 0) return put_in_force(actions);
            if (pending->epoch == 0 && waits_for_room(actions)) return;
            begin_step(now, actions);
        }
        if (!pending->loading) {
            for (const WorkerId worker : pending->step) {
                if (workers.at(worker).kv.requests() > 0) return;
            }
            send_assignments(now, actions);
        }
        for (const WorkerId worker : pending->step) {
            if (!workers.at(worker).ready) return;
        }
        end_step(actions);
    }
}

void Coordinator::Impl::begin_step(TimePoint now, std::vector<CoordinatorAction>& actions) {
    PipelineParts parts = present_parts();
    std::vector<TransitionNode> nodes;
    for (std::size_t i = 0; i < parts.nodes.size(); ++i) {
        const PipelineNode& node = parts.nodes[i];
        const bool placed = i < pending->workers.size();
        nodes.push_back({node.layers, placed ? pending->placement.layers[i] : node.layers,
                         pending->changed.contains(node.worker)});
    }
    std::vector<Ends> links;
    for (const PipelineEdge& edge : parts.edges) links.emplace_back(edge.from, edge.to);
    const TransitionStep next = next_transition_step(config.n_layers, nodes, links);
    pending->stepping = true;
    pending->step_since = now;
    capacity_cache.reset();
    bool serving = false;  // one of them
    std::size_t running = 0;
    for (const std::int32_t i : next.nodes) {
        const WorkerId id = parts.nodes[static_cast<std::size_t>(i)].worker;
        pending->step.insert(id);
        serving = serving || (workers.at(id).ready && in_router(id));
        running += workers.at(id).kv.requests();
    }
    pending->disrupts = serving && !next.serves;
    if (!serving) return;
    actions.push_back(Report{
        names_text(pending->step, workers) + (pending->step.size() > 1 ? " change" : " changes") +
            " to other layers" + (next.serves ? " while the others serve" : "; service pauses") +
            (running > 0 ? "; " + std::to_string(running) + " request(s) there" : ""),
        false});
    if (next.serves) use_router(std::move(parts));
    empty_step(now, actions);
}

void Coordinator::Impl::empty_step(TimePoint now, std::vector<CoordinatorAction>& actions) {
    if (!pending || !pending->stepping || pending->loading) return;
    for (const WorkerId worker : pending->step) {
        empty_worker(now, worker, pending->step_since, MigrationReason::transition, actions);
    }
}

void Coordinator::Impl::end_step(std::vector<CoordinatorAction>& actions) {
    for (const WorkerId id : pending->step) pending->changed.erase(id);
    if (!pending->changed.empty() && !pending->step.empty()) {
        actions.push_back(Report{names_text(pending->step, workers) + " loaded; " +
                                     std::to_string(pending->changed.size()) +
                                     " worker(s) are still to change",
                                 false});
    }
    pending->step.clear();
    pending->stepping = pending->loading = pending->disrupts = false;
    capacity_cache.reset();
}

void Coordinator::Impl::send_assignments(TimePoint now, std::vector<CoordinatorAction>& actions) {
    pending->loading = true;
    pending->sent_at = now;
    pending->epoch = next_epoch++;
    AssignLayers message;
    message.epoch = pending->epoch;
    message.pipeline_groups = config.pipeline_groups;
    if (message.pipeline_groups <= 0) {
        PipelineParts parts = final_parts();
        const PipelineGraph graph(config.n_layers, std::move(parts.nodes), parts.edges);
        message.pipeline_groups = machines_in_pipeline(graph, workers);
    }
    // Those that are in no placement any more may still run requests.
    for (const auto& [id, worker] : workers) {
        message.peers.push_back({id, worker.joined.endpoint, worker.joined.public_key});
    }
    for (std::size_t i = 0; i < pending->workers.size(); ++i) {
        const WorkerId id = pending->workers[i];
        WorkerState& worker = workers.at(id);
        const bool changes = pending->step.contains(id);
        if (!changes && pending->changed.contains(id) && !worker.ready) continue;  // its turn comes
        if (changes) worker.ready = false;
        if (changes) {
            worker.layers = pending->placement.layers[i];
            worker.slowness.learn_anew();
        }
        message.layers = worker.layers;
        worker.assigned_epoch = message.epoch;
        actions.push_back(SendToWorker{id, message});
    }
    const auto in_step = [&](std::int32_t id) {
        return id >= 0 && pending->step.contains({static_cast<std::uint32_t>(id)});
    };
    std::erase_if(flows, [&](const auto& f) { return in_step(f.from) || in_step(f.to); });
    capacity_cache.reset();
    pending->message = std::move(message);
}

void Coordinator::Impl::repeat_assignments(TimePoint now, std::vector<CoordinatorAction>& actions) {
    if (!pending || !pending->loading || now - pending->sent_at < config.assign_repeat) return;
    pending->sent_at = now;
    for (const WorkerId id : pending->step) {
        if (workers.at(id).ready) continue;
        pending->message.layers = workers.at(id).layers;
        actions.push_back(SendToWorker{id, pending->message});
    }
}

// ---- routers
// --------------------------------------------------------------------------------------

// By their indices in ids.
std::map<Ends, spec::LinkSpec> Coordinator::Impl::measured_links(
    const std::vector<WorkerId>& ids) const {
    const auto index = index_of(ids);
    std::map<Ends, spec::LinkSpec> links;
    for (const WorkerId id : ids) {
        for (const spec::LinkSpec& link : workers.at(id).joined.links) {
            const auto from = index.find(link.from);
            const auto to = index.find(link.to);
            if (from == index.end() || to == index.end()) continue;  // a peer that left
            links.emplace(Ends(from->second, to->second), link);
        }
    }
    return links;
}

// The links of the plan, and behind them the other measured ones.
PipelineParts Coordinator::Impl::final_parts() const {
    PipelineParts parts;
    for (std::size_t i = 0; i < pending->workers.size(); ++i) {
        parts.nodes.push_back({pending->workers[i], pending->placement.layers[i]});
    }
    std::map<Ends, spec::LinkSpec> links = measured_links(pending->workers);
    for (const spec::LinkFlow& flow : pending->flows) {
        const auto link = links.find({flow.from, flow.to});
        parts.edges.push_back({flow.from, flow.to, flow.tokens_per_s, 0, 0});
        if (link == links.end()) continue;
        parts.edges.back().bandwidth_bytes_per_s = link->second.bandwidth_bytes_per_s;
        parts.edges.back().latency_s = link->second.latency_s;
        links.erase(link);
    }
    for (const auto& [ends, link] : links) {
        parts.edges.push_back(
            {ends.first, ends.second, 0, link.bandwidth_bytes_per_s, link.latency_s});
    }
    return parts;
}

void Coordinator::Impl::know_ways() {
    pending->ways = config.router({graph_of(final_parts()), config.router_seed});
}

// The pending placement's workers come first, in its order. Links have the new plan's flow where
// both ends hold what it gives them, else the flow in force. Others are there so that no pipeline
// is missed, with a flow that hardly counts beside these.
PipelineParts Coordinator::Impl::present_parts() const {
    std::vector<WorkerId> ids = pending->workers;
    for (const auto& [id, worker] : workers) {
        const bool placed = std::find(ids.begin(), ids.end(), id) != ids.end();
        if (placed || worker.drained || !worker.ready || worker.layers.empty()) continue;
        ids.push_back(id);
    }
    PipelineParts parts;
    for (const WorkerId id : ids) {
        const WorkerState& worker = workers.at(id);
        parts.nodes.push_back({id, worker.ready ? worker.layers : LayerRange{}});
    }
    const auto settled = [&](std::int32_t node) {
        if (node == spec::kCoordinator) return true;
        const auto i = static_cast<std::size_t>(node);
        return i < pending->workers.size() && !pending->changed.contains(ids[i]);
    };
    const auto index = index_of(ids);
    std::map<Ends, double> planned;
    std::set<Ends> all;
    for (const spec::LinkFlow& flow : pending->flows) {
        all.insert({flow.from, flow.to});
        if (settled(flow.from) && settled(flow.to))
            planned[{flow.from, flow.to}] = flow.tokens_per_s;
    }
    for (const spec::LinkFlow& flow : flows) {  // of worker ids
        const auto from = index.find(flow.from);
        const auto to = index.find(flow.to);
        if (from == index.end() || to == index.end()) continue;
        const Ends ends(from->second, to->second);
        all.insert(ends);
        planned.emplace(ends, flow.tokens_per_s);
    }
    std::map<Ends, spec::LinkSpec> links = measured_links(ids);
    for (const auto& [ends, link] : links) all.insert(ends);
    for (std::size_t i = 0; i < ids.size(); ++i) {  // ours reach every worker
        all.insert({spec::kCoordinator, static_cast<std::int32_t>(i)});
        all.insert({static_cast<std::int32_t>(i), spec::kCoordinator});
    }
    double most = 1;
    for (const auto& [ends, flow] : planned) most = std::max(most, flow);
    for (const Ends& ends : all) {
        const auto flow = planned.find(ends);
        const bool used = flow != planned.end() && flow->second > 0;
        const spec::LinkSpec link = links[ends];
        parts.edges.push_back({ends.first, ends.second,
                               used ? flow->second : most * kUnplannedShare,
                               link.bandwidth_bytes_per_s, link.latency_s});
    }
    return parts;
}

// Requests go their ways on; new ones go by these. On the way to a placement no flow is promised.
void Coordinator::Impl::use_router(PipelineParts parts) {
    router_parts = std::move(parts);
    router_seed = base::hash_pair(config.router_seed, pending->epoch);
    make_router();
    const std::vector<PipelineNode>& nodes = router->graph().nodes();
    prompts.set_workers(std::count_if(
        nodes.begin(), nodes.end(), [](const PipelineNode& node) { return !node.layers.empty(); }));
    flow_in_force = 0;
}

void Coordinator::Impl::put_in_force(std::vector<CoordinatorAction>& actions) {
    use_router(final_parts());
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
    const std::vector<LinkHealth::Ends> down = link_health.all_down();
    const bool goes = std::none_of(down.begin(), down.end(), [&](const LinkHealth::Ends& ends) {
        return plan_uses(ends.first, ends.second);
    });
    flow_in_force = goes ? total_flow(flows) : 0;
    epoch_in_force = pending->epoch;
    std::string text = "placement " + std::to_string(epoch_in_force) + " in force:";
    for (const WorkerId id : pending->workers) {
        const WorkerState& worker = workers.at(id);
        text += " " + worker.joined.node.name + " " + layers_text(worker.layers) + ";";
    }
    text.pop_back();
    remember_in_force();
    pending.reset();
    capacity_cache.reset();
    actions.push_back(Report{text, false, ReportCause::placement_in_force});
}

}  // namespace helix::core
