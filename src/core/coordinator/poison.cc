// Requests that workers die of.
//
// Who is to blame for a sudden death nobody can tell: the worker says nothing any more. What can be
// known is which requests had rows in its pipeline that have not come back. A death counts against
// each of them, and is forgotten with its next token: what was computed between two deaths did no
// harm. So requests that were merely there when machines died go on, however many die, as long as
// they come on at all in between. One that counts two deaths is a suspect: it is run again on a
// pipeline of its own, where nothing else runs. If a worker dies there, too, it is stopped for a
// while: when other workers die meanwhile, machines die here of something else, and it is run alone
// again; when none does, it ends with an error that says so. A poisonous request costs three
// workers, and costs no other request anything but time.

#include <algorithm>
#include <string>
#include <utility>

#include "base/planted_bug.h"
#include "core/coordinator/coordinator_state.h"

namespace helix::core {
namespace {

constexpr Duration kUntilVerdict = base::from_seconds(3);

// Sent to its pipeline and not come back.
bool has_rows_out(const RequestState& state) {
    if (!state.group || !state.group->forked) return state.rows_going > 0;
    const std::vector<GroupMember>& members = state.group->members;
    return std::any_of(members.begin(), members.end(),
                       [](const GroupMember& member) { return member.rows_going > 0; });
}

}  // namespace

void Coordinator::Impl::note_death(TimePoint now, RequestState& state, WorkerId worker) {
    if (base::planted(base::PlantedBug::poison_not_noticed)) return;
    if (!state.running || stage_at(state.pipeline, worker) == nullptr || !has_rows_out(state)) {
        return;
    }
    if (++state.deaths < kMostDeaths) return;
    accused.emplace(state.request.id, now + kUntilVerdict);
    end_quarantine(state);
}

void Coordinator::Impl::acquit(WorkerId dead) {
    // Of that one another suspect is accused.
    if (quarantine && quarantine->workers.contains(dead)) return;
    for (const auto& [id, verdict] : std::exchange(accused, {})) {
        requests.at(id).deaths = kDeathsBeforeAlone;
    }
}

void Coordinator::Impl::pass_verdicts(TimePoint now, std::vector<CoordinatorAction>& actions) {
    std::vector<RequestId> guilty;
    for (const auto& [id, verdict] : accused) {
        if (now >= verdict) guilty.push_back(id);
    }
    for (const RequestId id : guilty) {
        finish(id, FinishReason::kills_workers,
               std::to_string(kMostDeaths) +
                   " workers died while they ran this request, one after the other, the last with "
                   "nothing else to do: it is not tried again",
               actions);
    }
}

void Coordinator::Impl::note_progress(RequestState& state) {
    state.trouble_since.reset();
    if (state.deaths == 0) return;
    state.deaths = 0;
    end_quarantine(state);
}

bool Coordinator::Impl::set_apart(TimePoint now, const RequestState& state) {
    if (accused.contains(state.request.id)) return false;
    if (quarantine && quarantine->id != state.request.id) return false;
    const std::int64_t full = blocks_needed(state, state.max_output);
    const bool apart = prefilled_apart(state);
    const auto could = [&](WorkerId worker, LayerRange layers) {
        if (apart && has_role(worker, spec::NodeRole::decode)) return false;
        return usable(worker, layers) && full * layers.size() <= most_pages(worker);
    };
    const auto kept = [&](WorkerId worker, LayerRange layers) {
        return could(worker, layers) && quarantine->workers.contains(worker);
    };
    if (quarantine && router->can_route(kept)) return true;
    const RoutedRequest request{state.request.id, now, length(state), state.request.priority};
    const Path path =
        router->route(request, could, [&](WorkerId worker) { return load_of(worker); });
    quarantine.reset();
    if (path.empty()) return false;
    quarantine = Quarantine{state.request.id, {}};
    for (const Stage& stage : router->graph().pipeline(path)) {
        quarantine->workers.insert(stage.worker);
    }
    return true;
}

void Coordinator::Impl::start_suspect(TimePoint now, std::int64_t capacity_now,
                                      std::int64_t lasting,
                                      std::vector<CoordinatorAction>& actions) {
    RequestState& state = requests.at(quarantine->id);
    const bool full =
        sequences_running > 0 && sequences_running + sequences_of(state) > config.max_running;
    if (state.running || full || !prompts.open()) return;
    if (!still_fits(now, state, capacity_now, lasting, actions) || !set_apart(now, state)) return;
    Path path = route(now, state);
    if (!path.empty()) start(now, state, std::move(path), actions);
}

bool Coordinator::Impl::keeps_apart(const RequestState& state, WorkerId worker) const {
    const bool here = quarantine && quarantine->workers.contains(worker);
    if (!is_suspect(state)) return !here;
    return here && quarantine->id == state.request.id && workers.at(worker).kv.requests() == 0;
}

void Coordinator::Impl::end_quarantine(const RequestState& state) {
    if (quarantine && quarantine->id == state.request.id) quarantine.reset();
}

}  // namespace helix::core
