// Clients that are at a gateway, which outlives the coordinator: it keeps their requests and what
// they have got, and hands both to the next coordinator.

#include <utility>

#include "base/planted_bug.h"
#include "sim/faults/faulty_machine.h"

namespace helix::sim {
namespace {

constexpr double kReconnectSeconds = 1;  // at most, until a gateway finds the new coordinator
// More attempts than one coordinator ever makes of a request.
constexpr std::uint32_t kAttemptsEach = 1U << 16;

}  // namespace

void FaultyCluster::wait_at_gateway(Outcome& outcome) {
    outcome.waits = true;
    // The next coordinator does not know which deaths this one counted.
    outcome.killed = 0;
}

void FaultyCluster::join_gateway() {
    gateway_term_.join(cluster_.term());
    gateway_led_by_ = cluster_.term();
    gateway_alone_ = false;
}

// Its connection to a coordinator ends when it notices that this one is gone, and it joins the next
// one alone.
bool FaultyCluster::gateway_is_led_by(std::uint64_t term) {
    if (!config_.gateway || gateway_alone_) return false;
    const bool unchecked = base::planted(base::PlantedBug::term_not_checked_by_gateway);
    if (!gateway_term_.hears(term) && !unchecked) {
        ++counts_.former_words;
        probes_.hit(Probe::former_unheard);
        return false;
    }
    if (term < gateway_led_by_) check("a gateway was led by a coordinator that was replaced");
    return true;
}

void FaultyCluster::hand_over_later(core::RequestId id) {
    after(kReconnectSeconds * gateway_.uniform(), [this, id, term = cluster_.term()] {
        Outcome& outcome = outcomes_.at(id);
        const bool same = term == cluster_.term();
        if (outcome.waits && same && cluster_.coordinator_up()) hand_over(id, outcome);
    });
}

void FaultyCluster::hand_over(core::RequestId id, Outcome& outcome) {
    join_gateway();
    outcome.waits = false;
    const core::Request& request = at_gateway_.at(id);
    drafts_.forget(id);
    drafts_.begin(request);
    ++counts_.handed_over;
    ++outcome.coordinators;
    if (!outcome.accepted) return cluster_.tell(core::Submitted{request});
    core::Begun begun;
    begun.attempts_before = outcome.coordinators * kAttemptsEach;
    if (base::planted(base::PlantedBug::attempts_not_raised)) begun.attempts_before = 0;
    begun.scored = static_cast<std::int32_t>(outcome.scored.size());
    begun.choices.resize(static_cast<std::size_t>(request.n));
    for (std::int32_t i = 0; i < request.n; ++i) {
        const auto said = outcome.choices.find(i);
        core::Begun::Choice& choice = begun.choices[static_cast<std::size_t>(i)];
        if (said != outcome.choices.end()) choice.output = said->second;
        choice.ended = outcome.choices_ended.contains(i);
    }
    cluster_.tell(core::Submitted{request, std::move(begun)});
}

void FaultyCluster::note_adopted(const core::RequestRouted& action, Outcome& outcome) {
    ++counts_.adopted;
    probes_.hit(Probe::adopted);
    bool same = !outcome.pipelines.empty() && outcome.pipelines.back() == action.pipeline &&
                outcome.attempt == action.attempt;
    const auto unheard = outcome.unheard.find(action.attempt);
    if (unheard != outcome.unheard.end() && unheard->second == action.pipeline) {
        probes_.hit(Probe::adopted_of_former);
        outcome.pipelines.push_back(action.pipeline);
        outcome.attempt = action.attempt;
        same = true;
    }
    if (!same) check("a request was adopted where it did not run");
    note_touched(action.id, outcome);
}

}  // namespace helix::sim
