#include "core/weights/tensor_holders.h"

namespace helix::core {
namespace {

std::int32_t node_of(WorkerId worker) {
    return static_cast<std::int32_t>(worker.value);
}

}  // namespace

void TensorHolders::on_links(std::span<const spec::LinkSpec> links) {
    for (const spec::LinkSpec& link : links) {
        bytes_per_s_[{link.from, link.to}] = link.bandwidth_bytes_per_s;
    }
}

void TensorHolders::on_ready(WorkerId worker, std::span<const std::int32_t> tensors, bool shared) {
    State& state = workers_[worker];
    state.shares = shared;
    for (const std::int32_t tensor : tensors) {
        if (shared) state.tensors.insert(tensor);
        if (state.asking.has_value() && state.asking->tensor == tensor) state.asking.reset();
    }
}

void TensorHolders::on_lost(WorkerId worker) {
    workers_.erase(worker);
    std::erase_if(failed_,
                  [&](const auto& pair) { return pair.first == worker || pair.second == worker; });
    std::erase_if(bytes_per_s_, [&](const auto& link) {
        return link.first.first == node_of(worker) || link.first.second == node_of(worker);
    });
}

TensorHolders::Answer TensorHolders::ask(TimePoint now, WorkerId worker, std::int32_t tensor,
                                         std::optional<WorkerId> failed) {
    workers_[worker].asking.reset();
    Asking asking{tensor, {}, now, now};
    if (failed.has_value()) {
        failed_.emplace(worker, *failed);
        if (const auto peer = workers_.find(*failed); peer != workers_.end()) {
            peer->second.tensors.erase(tensor);
        }
    } else {
        asking.answer = choose(now, worker, asking);
    }
    workers_[worker].asking = asking;
    return asking.answer;
}

std::optional<TensorHolders::Source> TensorHolders::ask_more(TimePoint now, WorkerId worker,
                                                             std::int32_t tensor) {
    const auto found = workers_.find(worker);
    if (found == workers_.end()) return std::nullopt;
    std::optional<Asking>& asking = found->second.asking;
    if (!asking.has_value() || asking->tensor != tensor) return std::nullopt;
    if (asking->answer.source == Source::coordinator) asking->heard = now;
    return asking->answer.source;
}

std::vector<TensorHolders::Told> TensorHolders::settle(TimePoint now) {
    std::vector<Told> told;
    for (auto& [worker, state] : workers_) {
        if (!state.asking.has_value() || state.asking->answer.source != Source::wait) continue;
        const Answer answer = choose(now, worker, *state.asking);
        if (answer.source == Source::wait) continue;
        state.asking->answer = answer;
        state.asking->heard = now;
        told.push_back({worker, state.asking->tensor, answer});
    }
    return told;
}

TensorHolders::Answer TensorHolders::choose(TimePoint now, WorkerId worker,
                                            const Asking& asking) const {
    std::optional<WorkerId> best;
    std::size_t fewest = kMostTransfers;
    bool wait = false;
    for (const auto& [other, state] : workers_) {
        if (other == worker || !may_give(other, worker)) continue;
        if (state.shares && is_about_to_have(now, state, asking.tensor)) {
            wait = wait || may_wait_for(now, other, worker, asking);
        }
        if (!state.tensors.contains(asking.tensor)) continue;
        const std::size_t transfers = transfers_from(now, other);
        if (transfers >= fewest) continue;
        fewest = transfers;
        best = other;
    }
    if (best.has_value()) return {Source::peer, *best};
    return {wait ? Source::wait : Source::coordinator, {}};
}

bool TensorHolders::may_give(WorkerId giver, WorkerId worker) const {
    if (failed_.contains({worker, giver})) return false;
    return !is_much_slower({node_of(giver), node_of(worker)}, {spec::kCoordinator, node_of(worker)})
                .value_or(false);
}

bool TensorHolders::may_wait_for(TimePoint now, WorkerId giver, WorkerId worker,
                                 const Asking& asking) const {
    const std::optional<bool> slower =
        is_much_slower({spec::kCoordinator, node_of(giver)}, {spec::kCoordinator, node_of(worker)});
    return slower.has_value() ? !*slower : now - asking.began < kMoment;
}

bool TensorHolders::is_about_to_have(TimePoint now, const State& state, std::int32_t tensor) const {
    return state.asking.has_value() && state.asking->tensor == tensor &&
           state.asking->answer.source != Source::wait && now - state.asking->heard < kStuckAfter;
}

std::size_t TensorHolders::transfers_from(TimePoint now, WorkerId giver) const {
    std::size_t transfers = 0;
    for (const auto& [worker, state] : workers_) {
        if (!state.asking.has_value() || now - state.asking->heard >= kOverAfter) continue;
        const Answer& answer = state.asking->answer;
        if (answer.source == Source::peer && answer.peer == giver) ++transfers;
    }
    return transfers;
}

std::optional<bool> TensorHolders::is_much_slower(Link link, Link than) const {
    const auto one = bytes_per_s_.find(link);
    const auto other = bytes_per_s_.find(than);
    if (one == bytes_per_s_.end() || other == bytes_per_s_.end()) return std::nullopt;
    return one->second < kFastEnough && one->second * kMuchSlower < other->second;
}

}  // namespace helix::core
