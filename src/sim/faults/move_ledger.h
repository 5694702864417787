#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "core/coordinator/coordinator.h"

namespace helix::sim {

// Migrations that a simulated cluster has seen.
struct MoveCounts {
    std::int64_t asked = 0;    // MoveRequest
    std::int64_t refused = 0;  // of those, at once
    std::int64_t begun = 0;    // whoever wanted them
    std::int64_t committed = 0;
    std::array<std::int64_t, 3> given_up{};  // by MigrationPhase
    void add(const MoveCounts& other);
};

// Holds the coordinator to its word about migrations: each MoveRequest is answered once, each
// migration that begins ends once, none begins under a number that was used before, and the attempt
// that runs is the new one exactly when it was committed. Each call returns the rule that was
// broken; empty when none was.
class MoveLedger {
  public:
    struct Move {
        std::uint32_t attempt = 0;
        std::set<core::WorkerId> workers;  // of the new pipeline
    };
    // A MoveRequest is told; between these two lies the coordinator's step.
    void ask(core::RequestId id);
    std::string answered();
    // ReserveKv goes out: a migration begins, or asks again.
    std::string reserve(core::WorkerId worker, const core::ReserveKv& message);
    // attempt: that was routed last.
    std::string end(const core::MigrationEnded& over, std::uint32_t attempt);

    // The one under way; null: there is none.
    const Move* of(core::RequestId id) const;
    // So many of the request were committed.
    std::int64_t commits(core::RequestId id) const;
    std::string left_open() const;
    // The coordinator that knew of them is gone.
    void forget() { tracks_.clear(); }
    const MoveCounts& counts() const { return counts_; }

  private:
    struct Track {
        std::optional<Move> open;
        std::uint32_t last_attempt = 0;
        std::int64_t commits = 0;
    };
    std::map<core::RequestId, Track> tracks_;
    std::optional<core::RequestId> asking_;
    int answers_ = 0;
    MoveCounts counts_;
};

}  // namespace helix::sim
