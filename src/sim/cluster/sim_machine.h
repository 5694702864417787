#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/protocol/term.h"
#include "core/worker/worker.h"
#include "spec/cluster_spec.h"

namespace helix::sim {

// One machine of a simulated cluster, and the worker that runs on it. Whoever drives the cluster
// owns its machines and may add to them.
struct SimMachine {
    core::WorkerId id;
    std::int32_t vertex = 0;  // of the network
    spec::NodeSpec node;
    std::int64_t kv_pages = 0;  // of the pool, while it holds any layers
    double slow = 1;            // times that all it computes takes longer

    std::uint64_t incarnation = 0;         // of its worker; rises with each start
    std::unique_ptr<core::Worker> worker;  // null: it is down
    core::BatchFinished running;           // of this incarnation: what its batch will have given
    bool welcome = false;                  // a coordinator has let this incarnation in,
    core::FollowedTerm term;               // the one of this term,
    std::uint64_t led_by = 0;              // which a test knows for itself,
    bool alone = false;                    // which is gone: its worker keeps all for the next
    int pauses = 0;                        // above 0 it stands still,
    std::vector<std::function<void()>> inbox;  // and keeps what comes meanwhile

    // The incarnation that the coordinator's side of the transport listens to; 0: none.
    std::uint64_t session = 0;

    bool alive() const { return worker != nullptr; }
};

}  // namespace helix::sim
