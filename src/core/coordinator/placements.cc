#include "core/coordinator/placements.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "core/coordinator/failed_moves.h"

namespace helix::core {

namespace {

// A link that the plan does not use counts this part of the largest planned flow while it is
// needed.
constexpr double kUnplannedShare = 0.01;

using Ends = std::pair<std::int32_t, std::int32_t>;

}  // namespace

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

std::map<std::int32_t, std::int32_t> index_of(const std::vector<WorkerId>& ids) {
    std::map<std::int32_t, std::int32_t> index = {{spec::kCoordinator, spec::kCoordinator}};
    for (std::size_t i = 0; i < ids.size(); ++i) {
        index[static_cast<std::int32_t>(ids[i].value)] = static_cast<std::int32_t>(i);
    }
    return index;
}

// ---- what may be used
// -----------------------------------------------------------------------------

bool Placements::usable(WorkerId worker, LayerRange layers) const {
    const Fleet& fleet = fleet_;  // nothing of it is touched
    const auto it = fleet.find(worker);
    return it != fleet.end() && it->second.ready && !closed(worker) &&
           it->second.layers.contains(layers);
}

bool Placements::closed(WorkerId worker) const {
    if (pending_ && pending_->step.contains(worker)) return true;
    return fleet_.drained_closed() && std::as_const(fleet_).at(worker).draining;
}

bool Placements::in_router(WorkerId worker) const {
    if (router_ == nullptr) return false;
    const PipelineGraph& graph = router_->graph();
    const std::int32_t node = graph.node_of(worker);
    return node >= 0 && !graph.nodes()[static_cast<std::size_t>(node)].layers.empty();
}

bool Placements::link_down(WorkerId one, WorkerId other) const {
    return links_.down(one, other);
}

bool Placements::link_down(const spec::LinkSpec& link) const {
    if (link.from == spec::kCoordinator || link.to == spec::kCoordinator) return false;
    const auto worker = [](std::int32_t end) { return WorkerId{static_cast<std::uint32_t>(end)}; };
    return link_down(worker(link.from), worker(link.to));
}

bool Placements::plan_uses(WorkerId one, WorkerId other) const {
    return std::any_of(flows_.begin(), flows_.end(), [&](const spec::LinkFlow& flow) {
        const auto is = [](std::int32_t end, WorkerId worker) {
            return end == static_cast<std::int32_t>(worker.value);
        };
        return (is(flow.from, one) && is(flow.to, other)) ||
               (is(flow.from, other) && is(flow.to, one));
    });
}

PipelineGraph Placements::graph_of(PipelineParts parts) const {
    std::erase_if(parts.edges, [&](const PipelineEdge& edge) {
        if (edge.from == spec::kCoordinator || edge.to == spec::kCoordinator) return false;
        const auto worker = [&](std::int32_t node) {
            return parts.nodes[static_cast<std::size_t>(node)].worker;
        };
        return link_down(worker(edge.from), worker(edge.to));
    });
    return {config_.n_layers, std::move(parts.nodes), parts.edges};
}

// Running requests go their ways on where these still exist, and new ones go by this router.
void Placements::make_router() {
    router_ = config_.router({graph_of(router_parts_), router_seed_});
    ++routers_made_;
    ++version_;
    forget_failed_moves(fleet_, requests_);
    for (auto& [id, state] : requests_) {
        if (state.running) state.path = router_->graph().path(state.pipeline);
        if (state.migration) {
            state.migration->path = router_->graph().path(state.migration->pipeline);
        }
    }
}

// The links of the plan come first, and behind them the other measured ones.
PipelineParts Placements::final_parts() const {
    PipelineParts parts;
    for (std::size_t i = 0; i < pending_->workers.size(); ++i) {
        parts.nodes.push_back({pending_->workers[i], pending_->placement.layers[i]});
    }
    std::vector<MeasuredLink> links = measured_links(pending_->workers);
    for (const spec::LinkFlow& flow : pending_->flows) {
        const Ends ends(flow.from, flow.to);
        const auto link = std::lower_bound(
            links.begin(), links.end(), ends,
            [](const MeasuredLink& one, const Ends& other) { return one.ends < other; });
        parts.edges.push_back({flow.from, flow.to, flow.tokens_per_s, 0, 0});
        if (link == links.end() || link->ends != ends || link->measured == nullptr) continue;
        parts.edges.back().bandwidth_bytes_per_s = link->measured->bandwidth_bytes_per_s;
        parts.edges.back().latency_s = link->measured->latency_s;
        link->measured = nullptr;
    }
    parts.edges.reserve(parts.edges.size() + links.size());
    for (const MeasuredLink& link : links) {
        if (link.measured == nullptr) continue;  // the plan uses it
        parts.edges.push_back({link.ends.first, link.ends.second, 0,
                               link.measured->bandwidth_bytes_per_s, link.measured->latency_s});
    }
    return parts;
}

void Placements::know_ways() {
    pending_->ways = config_.router({graph_of(final_parts()), config_.router_seed});
}

// The pending placement's workers come first, in its order. Links have the new plan's flow where
// both ends hold what it gives them, else the flow in force. Other links are there so that no
// pipeline is missed, with a flow that hardly counts beside these.
PipelineParts Placements::present_parts() const {
    std::vector<WorkerId> ids = pending_->workers;
    for (const auto& [id, worker] : fleet_) {
        const bool placed = std::find(ids.begin(), ids.end(), id) != ids.end();
        if (placed || worker.drained || !worker.ready || worker.layers.empty()) continue;
        ids.push_back(id);
    }
    PipelineParts parts;
    for (const WorkerId id : ids) {
        const WorkerState& worker = fleet_.at(id);
        parts.nodes.push_back({id, worker.ready ? worker.layers : LayerRange{}});
    }
    const auto settled = [&](std::int32_t node) {
        if (node == spec::kCoordinator) return true;
        const auto i = static_cast<std::size_t>(node);
        return i < pending_->workers.size() && !pending_->changed.contains(ids[i]);
    };
    const auto index = index_of(ids);
    std::map<Ends, double> planned;
    std::vector<Ends> all;
    for (const spec::LinkFlow& flow : pending_->flows) {
        all.emplace_back(flow.from, flow.to);
        if (settled(flow.from) && settled(flow.to))
            planned[{flow.from, flow.to}] = flow.tokens_per_s;
    }
    for (const spec::LinkFlow& flow : flows_) {  // its nodes are worker ids
        const auto from = index.find(flow.from);
        const auto to = index.find(flow.to);
        if (from == index.end() || to == index.end()) continue;
        const Ends ends(from->second, to->second);
        all.push_back(ends);
        planned.emplace(ends, flow.tokens_per_s);
    }
    const std::vector<MeasuredLink> links = measured_links(ids);
    for (const MeasuredLink& link : links) all.push_back(link.ends);
    for (std::size_t i = 0; i < ids.size(); ++i) {  // our own links reach every worker
        all.emplace_back(spec::kCoordinator, static_cast<std::int32_t>(i));
        all.emplace_back(static_cast<std::int32_t>(i), spec::kCoordinator);
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    double most = 1;
    for (const auto& [ends, flow] : planned) most = std::max(most, flow);
    parts.edges.reserve(all.size());
    auto next = links.begin();  // both are in order of their ends
    for (const Ends& ends : all) {
        const auto flow = planned.find(ends);
        const bool used = flow != planned.end() && flow->second > 0;
        while (next != links.end() && next->ends < ends) ++next;
        const bool measured = next != links.end() && next->ends == ends;
        const spec::LinkSpec link = measured ? *next->measured : spec::LinkSpec{};
        parts.edges.push_back({ends.first, ends.second,
                               used ? flow->second : most * kUnplannedShare,
                               link.bandwidth_bytes_per_s, link.latency_s});
    }
    return parts;
}

// Returns the measured links among these workers, by their indices in ids, in order. Of a link that
// both ends have measured it is what the first of them says.
std::vector<Placements::MeasuredLink> Placements::measured_links(
    const std::vector<WorkerId>& ids) const {
    const auto index = index_of(ids);
    std::vector<MeasuredLink> links;
    for (const WorkerId id : ids) {
        for (const spec::LinkSpec& link : fleet_.at(id).joined.links) {
            const auto from = index.find(link.from);
            const auto to = index.find(link.to);
            if (from == index.end() || to == index.end()) continue;  // it goes to a peer that left
            links.push_back({Ends(from->second, to->second), &link});
        }
    }
    const auto by_ends = [](const MeasuredLink& a, const MeasuredLink& b) {
        return a.ends < b.ends;
    };
    std::stable_sort(links.begin(), links.end(), by_ends);
    const auto same = [](const MeasuredLink& a, const MeasuredLink& b) { return a.ends == b.ends; };
    links.erase(std::unique(links.begin(), links.end(), same), links.end());
    return links;
}

// ---- on its way and in force
// ----------------------------------------------------------------------

void Placements::set_pending(PendingPlacement next) {
    pending_ = std::move(next);
    ++version_;
}

void Placements::drop_pending() {
    pending_.reset();
    ++version_;
}

void Placements::forget(WorkerId worker) {
    if (!pending_) return;
    const std::vector<WorkerId>& planned = pending_->workers;
    if (std::find(planned.begin(), planned.end(), worker) != planned.end()) return drop_pending();
    pending_->waits_for.reset();  // it need not wait for what the worker lost
}

void Placements::use_router(PipelineParts parts) {
    router_parts_ = std::move(parts);
    router_seed_ = base::hash_pair(config_.router_seed, pending_->epoch);
    make_router();
    flow_in_force_ = 0;
}

void Placements::drop_flows_of(const std::set<WorkerId>& step) {
    const auto in_step = [&](std::int32_t id) {
        return id >= 0 && step.contains({static_cast<std::uint32_t>(id)});
    };
    std::erase_if(flows_, [&](const auto& f) { return in_step(f.from) || in_step(f.to); });
}

void Placements::put_in_force() {
    flows_.clear();
    for (spec::LinkFlow flow : pending_->flows) {
        if (flow.tokens_per_s <= 0) continue;
        const auto id = [&](std::int32_t node) {
            if (node == spec::kCoordinator) return node;
            return static_cast<std::int32_t>(
                pending_->workers[static_cast<std::size_t>(node)].value);
        };
        flow.from = id(flow.from);
        flow.to = id(flow.to);
        flows_.push_back(flow);
    }
    const std::vector<LinkHealth::Ends> down = links_.all_down();
    const bool goes = std::none_of(down.begin(), down.end(), [&](const LinkHealth::Ends& ends) {
        return plan_uses(ends.first, ends.second);
    });
    flow_in_force_ = goes ? total_flow(flows_) : 0;
    epoch_in_force_ = pending_->epoch;
}

}  // namespace helix::core
