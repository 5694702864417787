#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/coordinator/auto_scale.h"
#include "core/coordinator/migration_pairing.h"
#include "core/coordinator/slowdown.h"
#include "core/protocol/remembered_placement.h"
#include "core/protocol/types.h"
#include "core/routing/router_catalogue.h"
#include "spec/attention_window.h"
#include "spec/cluster_spec.h"
#include "spec/serving_policy.h"

namespace helix::core {

// How a request gives its KV pages back when others need them.
enum class Preemption : std::uint8_t {
    automatic,  // swap a request of several sequences, recompute others
    // The pages are freed; when the request's turn comes again, prompt and output are computed
    // anew.
    recompute,
    // The pages go to host memory while every stage has room there; else as recompute.
    swap,
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
    // Copying goes on in rounds while the request decodes. When at most this many blocks are left,
    // or after this many rounds, the request is held at its next token and the rest is copied.
    std::int32_t last_round_blocks = 2;
    std::int32_t max_rounds = 8;
    // A migration is given up when no answer comes for this long, and much sooner while the request
    // is held. A round may take longer where its bytes do: this many times what they need, together
    // with what goes before them from the same worker, at the rate of their link.
    Duration timeout = base::from_seconds(20);
    Duration hold_timeout = base::from_seconds(1);
    double time_factor = 4;
    std::int32_t per_worker = 2;            // moves into or out of a worker at once
    std::int32_t handovers_per_worker = 8;  // and this many hand-overs besides
};

// Running requests move so that KV memory is used evenly, and so that what waits finds room
// (core/coordinator/balancer.h). This needs MigrationConfig::enabled.
struct BalanceConfig {
    bool enabled = true;
    Duration interval = base::from_ms(500);
    PairingConfig pairing;        // when workers give and take requests
    std::int32_t room_moves = 4;  // the most moves for one request that waits; 0: none
    // A request whose move failed is tried again after a pause, which doubles each time. The same
    // holds for a worker where this many moves failed in a row. Both begin anew when workers or
    // placement change.
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
    std::int32_t vocab_size = 0;  // 0: it is not known, and no token is too high
    // The model is an encoder (spec::ModelSpec::encoder): each prompt is computed in one piece, and
    // nothing but embeddings is asked for. Then there is no prefix cache.
    bool encoder = false;
    std::int32_t block_size = 16;
    spec::AttentionWindow window = {};  // of the model; workers have the same,
    std::int32_t shared_kv_layers = 0;  // and this, which spec::ModelSpec explains
    std::int32_t max_waiting = 1024;    // more requests are refused with queue_full
    // The most tokens of waiting prompts; requests beyond are refused, too.
    std::int64_t max_waiting_tokens = std::int64_t{1} << 22;
    std::int32_t max_running = 4096;  // the most sequences that run in the cluster
    // What depends on the plan that is served. Its prompts wait in the queue as
    // core/coordinator/prompt_window.h says.
    spec::ServingPolicy policy;
    // The roles that the plan has for workers of these names, whatever they were started for.
    std::map<std::string, spec::NodeRole> roles = {};
    double expected_output_tokens = 240;
    RouterFactory router = max_flow_router().make;  // chooses the way of each request
    std::uint64_t router_seed = 0;
    // Decodes travel in at most this many groups, so that all machines of a pipeline have work; 0
    // means as many as the policy says for the shortest pipeline. Groups are larger where a machine
    // would be too busy with small ones (core/batch/batch_limits.h).
    std::int32_t pipeline_groups = 0;
    // A prompt whose beginning was computed lately goes to where its KV is and begins after it
    // (core/coordinator/prefix_routing.h says when it does not). This many blocks are remembered.
    bool prefix_cache = false;
    std::int32_t prefix_cache_blocks = 1 << 17;
    SpeculationConfig speculation;
    MigrationConfig migration;
    BalanceConfig balance;
    // Without it workers are started and stopped by other hands.
    std::optional<AutoScaleConfig> scale;
    std::int32_t min_workers = 1;  // nothing is planned before so many have joined
    // Requests on a worker that is drained, or about to load other layers, have this long to move
    // away or to finish. After that they are computed anew elsewhere.
    Duration empty_timeout = base::from_seconds(10);
    SlowdownConfig slowdown;  // plans take a slow worker for as slow as it is
    // This is what the coordinator before us had in force (Coordinator::placement_in_force). When
    // all that hold layers in it have joined and still can hold them, it is put in force without
    // planning. The others are waited for this long after the first has joined; then the placement
    // is planned, with what they held as PlanCluster::current.
    std::optional<RememberedPlacement> remembered = {};  // check_remembered() finds no fault
    Duration rejoin_wait = base::from_seconds(5);
    // What workers have kept of the time before this coordinator waits this long, from when a
    // placement is in force, for the requests that it belongs to. Then it is given up.
    Duration claim_wait = base::from_seconds(10);
    // These workers were being emptied by the coordinator before us (Coordinator::drains); they are
    // drained from the time they join. Those that hold layers in the remembered placement serve in
    // it until others have taken these over, as in any drain. Each worker is named once.
    std::vector<RememberedDrain> remembered_drains = {};
    // After a join or a loss, planning waits this long for more of them.
    Duration settle = base::from_ms(300);
    double switch_gain =
        1.05;  // a new placement must promise so much more flow to replace a whole one
    Preemption preemption = Preemption::automatic;
    Duration preemption_pause = base::from_ms(100);  // per worker, so that freed pages can arrive
    // An assignment that is not answered is sent again after this time, and so is a swap-in without
    // progress.
    Duration assign_repeat = base::from_seconds(5);
    // A request waits this long while no placement is in force.
    Duration unserved_timeout = base::from_seconds(60);
    // A request without a token for this long, and without rows at its stages, has lost its rows:
    // it is tried again.
    Duration lost_rows_timeout = base::from_seconds(15);
    // A request without a token for this long is tried again; without one for twice as long it ends
    // with an error.
    Duration stall_timeout = base::from_seconds(300);

    LayerRange kv_layers(LayerRange layers) const {
        return spec::kv_layers(layers, n_layers, shared_kv_layers);
    }
};

// Moves requests as Llumnix is published (PairingRule::llumnix): sources and destinations are less
// or more free than three pages for each sequence, looked at twenty times a second, with one move
// into or out of a worker at once; and room for the request that waits first comes from its virtual
// usage alone. Its dispatch is llumnix_router().
void balance_as_llumnix(CoordinatorConfig& config);

}  // namespace helix::core
