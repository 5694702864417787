// Requests that workers die of: each that computes a certain position of theirs, as long as the
// request runs there. It must not cost more than three workers, the last while it runs nothing
// else, and another each time that workers died of something else meanwhile.

#include <algorithm>
#include <utility>

#include "sim/faults/faulty_machine.h"

namespace helix::sim {
namespace {

constexpr double kUpAgainSeconds = 1;  // after the death of a process

}  // namespace

// Rows of an attempt that was given up may still be there: nobody could know.
bool FaultyCluster::runs_at(const Machine& machine, const core::SequenceKey& key) const {
    const auto found = outcomes_.find(key.request);
    if (found == outcomes_.end()) return false;  // a lie
    const Outcome& outcome = found->second;
    if (outcome.ended || machine.session != machine.incarnation || !cluster_.coordinator_up())
        return false;
    return key.attempt == outcome.attempt && key.attempt != outcome.freed_attempt;
}

bool FaultyCluster::poisons(const Machine& machine, const core::BatchChunk& chunk) const {
    if (!runs_at(machine, chunk.key)) return false;
    const std::int32_t at = outcomes_.at(chunk.key.request).poison_at;
    const auto count = static_cast<std::int32_t>(chunk.tokens.size());
    return chunk.first_position <= at && at < chunk.first_position + count;
}

// Such a batch never ends.
bool FaultyCluster::dies_of(Machine& machine, const core::BatchPlan& plan) {
    const auto poison =
        std::find_if(plan.chunks.begin(), plan.chunks.end(),
                     [&](const core::BatchChunk& chunk) { return poisons(machine, chunk); });
    if (poison == plan.chunks.end()) return false;
    const bool alone = std::all_of(plan.chunks.begin(), plan.chunks.end(), [&](const auto& other) {
        return other.key.request == poison->key.request || !runs_at(machine, other.key);
    });
    after(0, [this, id = machine.id, incarnation = machine.incarnation, chunk = *poison, alone] {
        Machine& dead = *machines_.at(id);
        if (!dead.alive() || dead.incarnation != incarnation) return;
        probes_.hit(Probe::killed_by_poison);
        ++counts_.poisoned;
        if (poisons(dead, chunk)) {
            Outcome& outcome = outcomes_.at(chunk.key.request);
            const std::int32_t killed = ++outcome.killed;
            // The one before, and another that it had no part in, which let it go on.
            const bool acquitted = losses_ - std::exchange(outcome.losses_then, losses_) >= 2;
            if (killed > core::kMostDeaths && !acquitted) {
                check("a request killed a fourth worker, though no other died");
            }
            if (killed >= core::kMostDeaths && !alone) {
                check("a request killed a third worker, which ran others beside it");
            }
        }
        kill(id);
    });
    after(kUpAgainSeconds, [this, id = machine.id] {
        Machine& again = *machines_.at(id);
        if (!again.alive() && again.kills == 0 && again.removes == 0) start(again);
    });
    return true;
}

bool FaultyCluster::may_run(const Outcome& outcome) const {
    if (!outcome.ended) return true;
    return !gateways_.empty() && cluster_.formers().contains(outcome.term);
}

// The request ends, and the judge hears how many workers it has seen die.
void FaultyCluster::note_losses(const Outcome& outcome) {
    clients_.at(outcome.client)->losses = outcome.losses;
}

// The coordinator takes it for dead now.
void FaultyCluster::note_lost(core::WorkerId id) {
    ++losses_;
    for (auto& [request, outcome] : outcomes_) {
        if (!may_run(outcome) || outcome.pipelines.empty()) continue;
        const core::Pipeline& pipeline = outcome.pipelines.back();
        const bool here = std::any_of(pipeline.begin(), pipeline.end(),
                                      [&](const core::Stage& s) { return s.worker == id; });
        if (!here) continue;
        ++outcome.losses;
        if (direct_watch() != nullptr) watch_->worker_lost(request);
    }
}

}  // namespace helix::sim
