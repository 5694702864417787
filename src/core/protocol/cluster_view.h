#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/protocol/coordinator_actions.h"
#include "core/protocol/remembered_placement.h"
#include "core/protocol/types.h"
#include "spec/cluster_spec.h"
#include "spec/placement.h"

namespace helix::core {

// The cluster as /metrics, the dashboard and the tests see it. A copy, cheap enough to be made once
// a second.
struct WorkerView {
    WorkerId worker;
    spec::NodeSpec node;
    std::uint64_t incarnation = 0;
    LayerRange layers;   // assigned
    bool ready = false;  // layers loaded
    std::int64_t total_pages = 0;
    std::int64_t used_pages = 0;  // as last reported
    double estimated_pages = 0;   // the coordinator's estimate
    std::int64_t running = 0;     // requests whose pipeline uses it
    std::int64_t batches = 0;
    std::int64_t rows = 0;
    std::int64_t busy_ns = 0;
    double slowdown = 1;  // how many times slower than usual it computes
    bool draining = false;
    bool remove = false;             // and will be dismissed when it is empty
    bool drained = false;            // holds nothing, is in no placement
    std::string drain_refused = {};  // why its last drain was refused
    std::string drain_waits = {};    // what its drain waits for
};
// Migrations that ended, by what they were begun for and how far they came.
struct MigrationCounts {
    std::array<std::array<std::int64_t, kMigrationPhases>, kMigrationReasons> counts = {};
    std::int64_t& of(MigrationReason reason, MigrationPhase phase) {
        return counts[static_cast<std::size_t>(reason)][static_cast<std::size_t>(phase)];
    }
    std::int64_t of(MigrationReason reason, MigrationPhase phase) const {
        return counts[static_cast<std::size_t>(reason)][static_cast<std::size_t>(phase)];
    }
    std::int64_t of(MigrationPhase phase) const {  // for whatever reason
        std::int64_t sum = 0;
        for (const auto& phases : counts) sum += phases[static_cast<std::size_t>(phase)];
        return sum;
    }
    std::int64_t committed() const { return of(MigrationPhase::committed); }
};
// The rows sent so far into pipelines that lead over a link: tokens of prompts, and one for each
// token of an answer, with what is drafted ahead. Ends are worker ids, or spec::kCoordinator.
struct LinkRows {
    std::int32_t from = spec::kCoordinator;
    std::int32_t to = spec::kCoordinator;
    std::int64_t rows = 0;
};
// The bytes of weights that workers have read, as they say, by where they came from. Core knows no
// weights: whoever serves them fills this in.
struct WeightBytes {
    std::uint64_t coordinator = 0;
    std::uint64_t peer = 0;   // another worker
    std::uint64_t cache = 0;  // the worker's own disk
};
struct ClusterView {
    TimePoint taken;  // when it was so, by the clock of whoever asked core for it
    std::vector<WorkerView> workers;
    std::vector<spec::LinkFlow> flows;  // node indices are worker ids
    std::vector<LinkRows> link_rows;    // of the links between workers that are here
    std::uint64_t epoch = 0;            // of the placement in force, 0 = none
    bool serving = false;
    std::int64_t capacity_tokens = 0;  // that one request may have, its prompt's among them
    std::int64_t waiting = 0;
    std::int64_t running = 0;
    std::int64_t swapped = 0;  // with their KV in host memory
    std::int64_t preemptions = 0;
    std::int64_t failovers = 0;  // times that a request lost a worker and went on elsewhere
    // Workers that do not reach each other, although the coordinator reaches both.
    std::vector<std::pair<WorkerId, WorkerId>> links_down = {};
    std::vector<RememberedDrain> drained_away;  // of workers that are not here
    // Whether workers keep to their roles (core/coordinator/roles.cc). None: no worker has a role.
    std::optional<bool> roles_kept;
    std::int64_t migrating = 0;
    MigrationCounts migrations;  // that ended
    std::int64_t finished = 0;
    std::int64_t failed = 0;
    std::int64_t rejected = 0;
    // Tokens of prompts, and of what is computed again after a preemption; and how many of them
    // were found in the prefix cache.
    std::int64_t prefix_queried_tokens = 0;
    std::int64_t prefix_hit_tokens = 0;
    // Speculation: drafts that were sent, their tokens, and those of the tokens that were right.
    std::int64_t drafts = 0;
    std::int64_t draft_tokens = 0;
    std::int64_t accepted_draft_tokens = 0;
    WeightBytes weight_bytes;
};

}  // namespace helix::core
