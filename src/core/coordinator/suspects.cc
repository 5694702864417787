#include "core/coordinator/suspects.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/planted_bug.h"

namespace helix::core {
namespace {

constexpr Duration kUntilVerdict = base::from_seconds(3);

// Says whether rows were sent to its pipeline that have not come back.
bool has_rows_out(const RequestState& state) {
    if (!state.group || !state.group->forked) return state.rows_going > 0;
    const std::vector<GroupMember>& members = state.group->members;
    return std::any_of(members.begin(), members.end(),
                       [](const GroupMember& member) { return member.rows_going > 0; });
}

}  // namespace

void Suspects::note_death(TimePoint now, RequestState& state, WorkerId worker) {
    if (base::planted(base::PlantedBug::poison_not_noticed)) return;
    if (!state.running || stage_at(state.pipeline, worker) == nullptr || !has_rows_out(state)) {
        return;
    }
    if (++state.deaths < kMostDeaths) return;
    accused_.emplace(state.request.id, now + kUntilVerdict);
    end_quarantine(state);
}

void Suspects::acquit(WorkerId dead) {
    // Another suspect is accused of that death.
    if (quarantine_ && quarantine_->workers.contains(dead)) return;
    for (const auto& [id, verdict] : std::exchange(accused_, {})) {
        requests_.at(id).deaths = kDeathsBeforeAlone;
    }
}

std::vector<RequestId> Suspects::guilty(TimePoint now) const {
    std::vector<RequestId> guilty;
    for (const auto& [id, verdict] : accused_) {
        if (now >= verdict) guilty.push_back(id);
    }
    return guilty;
}

void Suspects::forget(const RequestState& state) {
    end_quarantine(state);
    accused_.erase(state.request.id);
}

void Suspects::note_progress(RequestState& state) {
    state.trouble_since.reset();
    if (state.deaths == 0) return;
    state.deaths = 0;
    end_quarantine(state);
}

bool Suspects::set_apart(TimePoint now, const RequestState& state) {
    if (accused_.contains(state.request.id)) return false;
    if (quarantine_ && quarantine_->id != state.request.id) return false;
    const StageFits could = room_.could_hold(state);
    const auto kept = [&](WorkerId worker, LayerRange layers) {
        return could(worker, layers) && quarantine_->workers.contains(worker);
    };
    if (quarantine_ && placements_.router()->can_route(kept)) return true;
    const RoutedRequest request{state.request.id, now, length(state), state.request.priority};
    const Path path = placements_.router()->route(
        request, could, [&](WorkerId worker) { return fleet_.load_of(worker); });
    quarantine_.reset();
    if (path.empty()) return false;
    quarantine_ = Quarantine{state.request.id, {}};
    for (const Stage& stage : placements_.router()->graph().pipeline(path)) {
        quarantine_->workers.insert(stage.worker);
    }
    return true;
}

bool Suspects::keeps_apart(const RequestState& state, WorkerId worker) const {
    const bool here = quarantine_ && quarantine_->workers.contains(worker);
    if (!is_suspect(state)) return !here;
    return here && quarantine_->id == state.request.id && fleet_.at(worker).kv.requests() == 0;
}

void Suspects::end_quarantine(const RequestState& state) {
    if (quarantine_ && quarantine_->id == state.request.id) quarantine_.reset();
}

}  // namespace helix::core
