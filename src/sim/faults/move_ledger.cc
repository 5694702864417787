#include "sim/faults/move_ledger.h"

#include <utility>

#include "base/check.h"

namespace helix::sim {

void MoveCounts::add(const MoveCounts& other) {
    asked += other.asked;
    refused += other.refused;
    begun += other.begun;
    committed += other.committed;
    for (std::size_t i = 0; i < given_up.size(); ++i) given_up[i] += other.given_up[i];
}

void MoveLedger::ask(core::RequestId id) {
    CHECK(!asking_);
    asking_ = id;
    answers_ = 0;
    ++counts_.asked;
}

std::string MoveLedger::answered() {
    asking_.reset();
    return answers_ == 1 ? "" : "a MoveRequest had " + std::to_string(answers_) + " answers";
}

std::string MoveLedger::reserve(core::WorkerId worker, const core::ReserveKv& message) {
    Track& track = tracks_[message.key.request];
    const std::uint32_t attempt = message.key.attempt;
    if (track.open) {
        if (track.open->attempt != attempt) return "two migrations of one request at a time";
        track.open->workers.insert(worker);
        return "";
    }
    if (attempt <= track.last_attempt) return "a migration under a number that was used before";
    track.last_attempt = attempt;
    track.open = Move{attempt, {worker}};
    ++counts_.begun;
    // After a refusal it is one that the coordinator begins by itself.
    if (asking_ == message.key.request && answers_ == 0) ++answers_;
    return "";
}

std::string MoveLedger::end(const core::MigrationEnded& over, std::uint32_t attempt) {
    Track& track = tracks_[over.id];
    const bool committed = over.phase == core::MigrationPhase::committed;
    if (asking_ == over.id && answers_ == 0) {
        ++answers_;
        ++counts_.refused;
        if (over.reason.empty()) return "a MoveRequest was refused without a reason";
        if (over.cause != core::MigrationCause::not_begun) return "refused, but for what cause?";
        return over.phase == core::MigrationPhase::reserving ? "" : "refused, but in which phase?";
    }
    if (!track.open) return "a migration ended that had not begun, or that ended before";
    const Move move = *std::exchange(track.open, std::nullopt);
    if (committed != (attempt == move.attempt)) return "a migration ended in another way than told";
    if (committed != (over.cause == core::MigrationCause::committed))
        return "a migration ended for another cause than its phase says";
    if (committed) {
        ++counts_.committed;
        ++track.commits;
        return over.reason.empty() ? "" : "committed, with a reason why it was given up";
    }
    ++counts_.given_up.at(static_cast<std::size_t>(over.phase));
    return over.reason.empty() ? "a migration was given up without a reason" : "";
}

const MoveLedger::Move* MoveLedger::of(core::RequestId id) const {
    const auto found = tracks_.find(id);
    return found == tracks_.end() || !found->second.open ? nullptr : &*found->second.open;
}

std::int64_t MoveLedger::commits(core::RequestId id) const {
    const auto found = tracks_.find(id);
    return found == tracks_.end() ? 0 : found->second.commits;
}

std::string MoveLedger::left_open() const {
    for (const auto& [id, track] : tracks_) {
        if (track.open)
            return "a migration of request " + std::to_string(id.value) + " never ended";
    }
    return "";
}

}  // namespace helix::sim
