#include "core/coordinator/handover.h"

#include <algorithm>
#include <utility>

namespace helix::core {
namespace {

// Where there was no room it is looked again after this time.
constexpr Duration kLookAgain = base::from_ms(100);
// In one look, so many requests at most are tried to find a way for.
constexpr int kMostRoleTries = 64;

// Says whether more is to come than the token that is under way.
bool goes_on(const RequestState& state) {
    const std::size_t longest = state.group ? state.group->longest_output() : state.output.size();
    return static_cast<std::int64_t>(longest) + 1 < state.max_output;
}

}  // namespace

void Handover::hand_over(TimePoint now) {
    if (!roles_.may_look(now) || !room_.roles_kept()) return;
    roles_.look_again_at(now + kLookAgain);
    const std::map<QueueKey, RequestId> all = roles_.due();
    int tries = kMostRoleTries;
    for (const auto& [key, id] : all) {
        RequestState& state = requests_.at(id);
        if (!state.hands_over_again.may_try(now) || !goes_on(state) || !migrations_.movable(state))
            continue;
        if (tries-- == 0) return;
        const RoutedRequest request{id, now, length(state), state.request.priority};
        const Path path = placements_.router()->route(
            request, decode_fits(state), [&](WorkerId worker) { return fleet_.load_of(worker); });
        if (!path.empty()) {
            migrations_.begin_migration(now, state, path, MigrationReason::handover);
        }
        if (!state.migration && !roles_.is_where_prompts_are(state)) roles_.stays(key);  // it stays
    }
}

bool Handover::can_hand_over(const RequestState& state) const {
    return room_.roles_kept() && goes_on(state) && migrations_.movable(state) &&
           placements_.router()->can_route(decode_fits(state));
}

StageFits Handover::decode_fits(const RequestState& state) const {
    return [this, &state](WorkerId worker, LayerRange layers) {
        return migrations_.why_not_at(state, {worker, layers}, MigrationReason::handover).empty();
    };
}

std::vector<RequestId> Handover::waiting() const {
    std::vector<RequestId> waiting;
    for (const auto& [key, id] : roles_.due()) {
        const RequestState& request = *requests_.by_id(id);
        if (can_hand_over(request) && roles_.is_where_prompts_are(request)) waiting.push_back(id);
    }
    return waiting;
}

}  // namespace helix::core
