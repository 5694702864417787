#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/coordinator/auto_scale.h"
#include "core/coordinator/migration_pairing.h"
#include "core/coordinator/slowdown.h"
#include "core/protocol/remembered_placement.h"
#include "core/protocol/types.h"
#include "core/routing/router_catalogue.h"

namespace helix::core {

// How a request gives its KV pages back when others need them.
enum class Preemption : std::uint8_t {
    automatic,  // swap when it has several sequences, else recompute
    recompute,  // freed; when its turn comes again, prompt and output are computed anew
    swap,       // to host memory, while every stage has room there; else recompute
};

// Tokens are drafted ahead and computed along with the last one (core/coordinator/speculation.h).
struct SpeculationConfig {
    // By what followed the same last tokens earlier in the text, so many at once; 0 = only for
    // requests that ask for it, or (then so many) bring a prediction. It looks for the last
    // ngram_max tokens, then for fewer.
    std::int32_t ngram_tokens = 0;
    std::int32_t predicted_tokens = 16;
    std::int32_t ngram_min = 2;
    std::int32_t ngram_max = 4;
    // By the draft model, where the text says nothing; 0 = there is none.
    std::int32_t draft_tokens = 0;
    Duration draft_timeout = base::from_ms(250);  // then it goes on without
    std::int32_t draft_rows = 32;                 // of all requests that share a last stage
};

// Requests move to other pipelines while they run (core/coordinator/migrations.h).
struct MigrationConfig {
    bool enabled = true;
    // Copying goes on in rounds while the request decodes; when at most so many blocks are left, or
    // after so many rounds, it is held at its next token and the rest is copied.
    std::int32_t last_round_blocks = 2;
    std::int32_t max_rounds = 8;
    // Without an answer it is given up; while held, much sooner. A round may take longer where its
    // bytes do: so many times what they need, and what goes before them from the same worker, at
    // the rate of their link.
    Duration timeout = base::from_seconds(20);
    Duration hold_timeout = base::from_seconds(1);
    double time_factor = 4;
    std::int32_t per_worker = 2;            // at once, into or out of one worker,
    std::int32_t handovers_per_worker = 8;  // and besides them so many hand-overs
};

// Running requests move so that KV memory is used evenly, and so that what waits finds room
// (core/coordinator/balancer.h). Needs MigrationConfig::enabled.
struct BalanceConfig {
    bool enabled = true;
    Duration interval = base::from_ms(500);
    PairingConfig pairing;        // when workers give and take
    std::int32_t room_moves = 4;  // for one request that waits, at most; 0: none
    // A request whose move failed is tried again after a pause, twice as long each time; so is a
    // worker where so many failed in a row. Both begin anew when workers or placement change.
    Duration retry_first = base::from_seconds(1);
    Duration retry_longest = base::from_seconds(30);
    std::int32_t worker_failures = 3;
    // Where requests of high priority run, this part of the worker's KV memory is kept free of
    // others.
    double headroom = 0.1;
};

struct CoordinatorConfig {
    ModelId model;  // the number of the model that it serves; n_layers and so on are that model's
    std::int32_t n_layers = 0;
    std::int32_t context_length = 0;
    std::int32_t vocab_size = 0;  // 0: not known, and tokens are not held against it
    std::int32_t block_size = 16;
    std::int32_t max_waiting = 1024;                          // more are refused with queue_full
    std::int64_t max_waiting_tokens = std::int64_t{1} << 22;  // of their prompts; more are, too
    std::int32_t max_running = 4096;                          // sequences in the cluster
    double kv_high_water = 0.9;                               // fuller workers get no new requests
    double expected_output_tokens = 240;
    RouterFactory router = max_flow_router().make;  // which way each request takes
    std::uint64_t router_seed = 0;
    // Under load so many prompts are in the pipelines that they take about this long to their first
    // token; the others wait in the queue (core/coordinator/prompt_window.h).
    Duration prefill_target = base::from_seconds(2);
    // Decodes travel in so many groups at most, for all machines of a pipeline to have work; 0: as
    // many as machines stand in the shortest one. Groups are larger where small ones cost too much.
    std::int32_t pipeline_groups = 0;
    // Prompts whose beginning was computed lately go to where its KV is and begin after it
    // (core/coordinator/prefix_routing.h says when not). So many blocks are remembered.
    bool prefix_cache = false;
    std::int32_t prefix_cache_blocks = 1 << 17;
    SpeculationConfig speculation;
    MigrationConfig migration;
    BalanceConfig balance;
    std::optional<AutoScaleConfig> scale;  // none: workers come and go by other hands
    std::int32_t min_workers = 1;          // plan only once so many have joined
    // Requests on a worker that is drained, or about to load other layers, have so long to move
    // away or to finish; then they are computed anew elsewhere.
    Duration empty_timeout = base::from_seconds(10);
    SlowdownConfig slowdown;  // a slow worker is planned for as slow as it is
    // What the coordinator before us had in force (Coordinator::placement_in_force). When all that
    // hold layers in it have joined and still can hold them, it is put in force without planning.
    // From the first that joins it is waited for the others so long; then the placement is planned,
    // with what they held as PlanCluster::current.
    std::optional<RememberedPlacement> remembered = {};  // check_remembered() finds no fault
    Duration rejoin_wait = base::from_seconds(5);
    // What the coordinator before us was emptying (Coordinator::drains): these workers are drained
    // from the time they join. Those that hold layers in the remembered placement serve in it until
    // others have taken these over, as in any drain. Each worker once.
    std::vector<RememberedDrain> remembered_drains = {};
    Duration settle = base::from_ms(300);  // after a join or a loss, wait for more before planning
    double switch_gain =
        1.05;  // a new placement must promise so much more flow to replace a whole one
    Preemption preemption = Preemption::automatic;
    Duration preemption_pause = base::from_ms(100);  // per worker: lets freed pages arrive
    // Assignments without an answer, and swapping in without progress, are asked for again.
    Duration assign_repeat = base::from_seconds(5);
    Duration unserved_timeout = base::from_seconds(60);  // waiting while no placement is in force
    // No token for so long, and no rows at its stages: they were lost, and it is tried again.
    Duration lost_rows_timeout = base::from_seconds(15);
    // No token for so long: tried again, and again, then it ends with an error.
    Duration stall_timeout = base::from_seconds(300);
};

}  // namespace helix::core
