// This file has what a worker does without a coordinator: it keeps what it holds for the next one,
// and says what that is.

#include <algorithm>
#include <utility>
#include <vector>

#include "core/worker/worker_state.h"

namespace helix::core {
namespace {

// A coordinator that died may have passed on all tokens but the last few of a sequence. What was
// drawn before these is computed again by whoever needs it.
constexpr std::size_t kDrawnKept = 64;

}  // namespace

void Worker::Impl::on(const CoordinatorLost&, std::vector<WorkerAction>&) {
    if (!alone_since) alone_since = now;
    deferred.reset();  // the next coordinator says what is to be held
}

void Worker::Impl::on(const CoordinatorFound&, std::vector<WorkerAction>&) {
    alone_since.reset();
    epoch_before = epoch;
}

void Worker::Impl::give_up_waiting(std::vector<WorkerAction>& actions) {
    if (!alone_since || now - *alone_since < config.coordinator_wait) return;
    std::vector<SequenceKey> keys;
    for (const auto& [key, sequence] : sequences) keys.push_back(key);
    for (const auto& [key, parcel] : parcels) keys.push_back(key);
    if (!keys.empty()) on_free({std::move(keys)}, actions);
}

bool Worker::Impl::may_lack_rows(const Sequence& seq) const {
    const Pipeline& pipeline = seq.start->pipeline;
    return std::any_of(links_broke.begin(), links_broke.end(), [&](const auto& broke) {
        return broke.second >= seq.began && neighbours(pipeline, self, broke.first);
    });
}

void Worker::Impl::note_tokens(Sequence& seq, std::span<const ProducedToken> tokens) {
    std::vector<ProducedToken>& drawn = seq.more().drawn;
    drawn.insert(drawn.end(), tokens.begin(), tokens.end());
    if (drawn.size() < 2 * kDrawnKept) return;
    drawn.erase(drawn.begin(), drawn.end() - kDrawnKept);
}

Holding Worker::Impl::holding() const {
    Holding all;
    all.epoch = epoch;
    all.placement = placement;
    if (!ready) return all;
    all.layers = layers;
    for (const auto& [key, seq] : sequences) {
        if (seq->ending) continue;
        all.sequences.push_back({key, seq->start->pipeline, seq->arrived, seq->certain,
                                 seq->swapped, may_lack_rows(*seq), seq->drawn()});
    }
    return all;
}

}  // namespace helix::core
