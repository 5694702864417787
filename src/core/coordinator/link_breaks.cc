#include "core/coordinator/link_breaks.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/coordinator/failed_moves.h"

namespace helix::core {
namespace {

// Says whether rows that were sent before this time have not come back.
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

void LinkBreaks::on_peer_lost(TimePoint now, WorkerId said_by, const PeerLost& message) {
    const WorkerId other = message.peer;
    const auto peer = fleet_.find(other);
    // The message may speak of where the other worker was before it was started again.
    const bool of_now = peer != fleet_.end() && peer->second.joined.endpoint == message.endpoint;
    // Nothing runs on a worker that is not here, and nothing goes there.
    if (peer == fleet_.end() || (message.down && !of_now)) return;
    const LinkHealth::Heard heard = links_.hear(now, said_by, other, message.down);
    if (!heard.broke) return;
    migrations_.fail_migrations_over(now, said_by, other);
    if (heard.changed) on_link_changed(now, said_by, other);
}

// Rows that went before the link broke and have not come back a while after may be lost, and
// computing them anew costs less than waiting for them. If one of the two workers is dead, that is
// known by then.
void LinkBreaks::send_lost_rows_again(TimePoint now) {
    while (const auto link = links_.take_settled(now, config_.settle)) {
        const auto worker = fleet_.find(link->one);
        if (worker == fleet_.end()) continue;
        const bool down = links_.down(link->one, link->other);
        std::vector<RequestId> hit;
        for (const auto& [id, pages] : worker->second.kv.charges()) {
            const RequestState& state = requests_.at(id);
            if (!neighbours(state.pipeline, link->one, link->other)) continue;
            if (down || waits_since(state, link->at)) hit.push_back(id);
        }
        for (const RequestId id : hit) {
            life_.fail_over(now, requests_.at(id), RouteReason::link_broke);
        }
    }
}

void LinkBreaks::forget_old_complaints(TimePoint now) {
    while (const auto ends = links_.forget_next_old(now)) {
        on_link_changed(now, ends->first, ends->second);
    }
}

// A link may be measured by both of its ends, or by one of them.
void LinkBreaks::on(TimePoint now, const LinksMeasured& event) {
    const auto it = fleet_.find(event.worker);
    if (it == fleet_.end() || event.links.empty()) return;
    std::vector<spec::LinkSpec>& known = it->second.joined.links;
    for (const spec::LinkSpec& link : event.links) {
        std::erase_if(known, [&](const spec::LinkSpec& old) {
            return old.from == link.from && old.to == link.to;
        });
        known.push_back(link);
    }
    out_.push(Report{"worker " + it->second.joined.node.name + " measured links anew", false});
    planning_.want_plan(now);
}

void LinkBreaks::on_link_changed(TimePoint now, WorkerId one, WorkerId other) {
    const bool down = placements_.link_down(one, other);
    out_.push(Report{"workers " + fleet_.name(one) + " and " + fleet_.name(other) +
                         (down ? " do not reach each other; nothing is sent between them"
                               : " reach each other again"),
                     down});
    if (placements_.router() != nullptr) placements_.make_router();
    if (placements_.pending()) placements_.know_ways();
    forget_failed_moves(fleet_, requests_);
    if (down && !placements_.plan_uses(one, other)) return;
    placements_.expect_no_flow();
    planning_.want_plan(now);
}

}  // namespace helix::core
