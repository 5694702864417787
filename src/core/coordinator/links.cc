// Links between workers that break, stay broken and come back.
//
// A worker says when its link to another broke. That it is back at once costs the rows that were
// under way: what waits for them is computed anew. While it stays down no request is sent over it,
// the placement is planned without it, and what ran over it goes on elsewhere.

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "core/coordinator/coordinator_state.h"

namespace helix::core {
namespace {

// Rows that were sent before have not come back.
bool waits_since(const RequestState& state, TimePoint time) {
    if (!state.group || !state.group->forked) {
        return state.rows_going > 0 && state.last_progress <= time;
    }
    const std::vector<GroupMember>& members = state.group->members;
    return std::any_of(members.begin(), members.end(), [&](const GroupMember& member) {
        return member.rows_going > 0 && member.sent_at <= time;
    });
}

}  // namespace

bool Coordinator::Impl::link_down(WorkerId one, WorkerId other) const {
    return link_health.down(one, other);
}

bool Coordinator::Impl::link_down(const spec::LinkSpec& link) const {
    if (link.from == spec::kCoordinator || link.to == spec::kCoordinator) return false;
    const auto worker = [](std::int32_t end) { return WorkerId{static_cast<std::uint32_t>(end)}; };
    return link_down(worker(link.from), worker(link.to));
}

void Coordinator::Impl::on_peer_lost(TimePoint now, WorkerId said_by, const PeerLost& message,
                                     std::vector<CoordinatorAction>& actions) {
    const WorkerId other = message.peer;
    const auto peer = workers.find(other);
    // It may speak of where the other was before it was started again.
    const bool of_now = peer != workers.end() && peer->second.joined.endpoint == message.endpoint;
    // Of one that is not here nothing runs, and nothing goes there.
    if (peer == workers.end() || (message.down && !of_now)) return;
    const LinkHealth::Heard heard = link_health.hear(now, said_by, other, message.down);
    if (!heard.broke) return;
    fail_migrations_over(now, said_by, other, actions);
    if (heard.changed) on_link_changed(now, said_by, other, actions);
}

void Coordinator::Impl::on_link_changed(TimePoint now, WorkerId one, WorkerId other,
                                        std::vector<CoordinatorAction>& actions) {
    const bool down = link_down(one, other);
    const auto name = [this](WorkerId id) { return workers.at(id).joined.node.name; };
    actions.push_back(Report{"workers " + name(one) + " and " + name(other) +
                                 (down ? " do not reach each other; nothing is sent between them"
                                       : " reach each other again"),
                             down});
    if (router != nullptr) make_router();
    if (pending) know_ways();
    forget_failed_moves();
    if (down && !plan_uses(one, other)) return;
    flow_in_force = 0;  // it was for other links
    want_plan(now);
}

bool Coordinator::Impl::plan_uses(WorkerId one, WorkerId other) const {
    return std::any_of(flows.begin(), flows.end(), [&](const spec::LinkFlow& flow) {
        const auto is = [](std::int32_t end, WorkerId worker) {
            return end == static_cast<std::int32_t>(worker.value);
        };
        return (is(flow.from, one) && is(flow.to, other)) ||
               (is(flow.from, other) && is(flow.to, one));
    });
}

// Rows that went before the link broke and have not come back a while after may be lost: computing
// them anew costs less than waiting for them. If a worker of the two is dead that is known by then.
void Coordinator::Impl::send_lost_rows_again(TimePoint now,
                                             std::vector<CoordinatorAction>& actions) {
    while (const auto link = link_health.take_settled(now, config.settle)) {
        const auto worker = workers.find(link->one);
        if (worker == workers.end()) continue;
        const bool down = link_health.down(link->one, link->other);
        std::vector<RequestId> hit;
        for (const auto& [id, pages] : worker->second.kv.charges()) {
            const RequestState& state = requests.at(id);
            if (!neighbours(state.pipeline, link->one, link->other)) continue;
            if (down || waits_since(state, link->at)) hit.push_back(id);
        }
        for (const RequestId id : hit) fail_over(now, requests.at(id), actions);
    }
}

void Coordinator::Impl::forget_old_complaints(TimePoint now,
                                              std::vector<CoordinatorAction>& actions) {
    while (const auto ends = link_health.forget_next_old(now)) {
        on_link_changed(now, ends->first, ends->second, actions);
    }
}

// A link is measured by both of its ends, or by one.
void Coordinator::Impl::on(TimePoint now, const LinksMeasured& event,
                           std::vector<CoordinatorAction>& actions) {
    const auto it = workers.find(event.worker);
    if (it == workers.end() || event.links.empty()) return;
    std::vector<spec::LinkSpec>& known = it->second.joined.links;
    for (const spec::LinkSpec& link : event.links) {
        std::erase_if(known, [&](const spec::LinkSpec& old) {
            return old.from == link.from && old.to == link.to;
        });
        known.push_back(link);
    }
    actions.push_back(
        Report{"worker " + it->second.joined.node.name + " measured links anew", false});
    want_plan(now);
}

// ---- ways without them
// ------------------------------------------------------------------------

PipelineGraph Coordinator::Impl::graph_of(PipelineParts parts) const {
    std::erase_if(parts.edges, [&](const PipelineEdge& edge) {
        if (edge.from == spec::kCoordinator || edge.to == spec::kCoordinator) return false;
        const auto worker = [&](std::int32_t node) {
            return parts.nodes[static_cast<std::size_t>(node)].worker;
        };
        return link_down(worker(edge.from), worker(edge.to));
    });
    return {config.n_layers, std::move(parts.nodes), parts.edges};
}

// Requests go their ways on where these still exist; new ones go by this.
void Coordinator::Impl::make_router() {
    router = config.router({graph_of(router_parts), router_seed});
    prefixes.clear();
    forget_failed_moves();
    for (auto& [id, state] : requests) {
        if (state.running) state.path = router->graph().path(state.pipeline);
        if (state.migration) {
            state.migration->path = router->graph().path(state.migration->pipeline);
        }
    }
    capacity_cache.reset();
}

}  // namespace helix::core
