#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "sim/cluster/sim_machine.h"
#include "sim/faults/faulty_cluster.h"

// One worker of a FaultyCluster; only faulty_cluster*.cc include this.

namespace helix::sim {

constexpr double kHelloRetrySeconds = 0.5;
constexpr double kDownSeconds = 2.5;  // heartbeats, and a grace (node/worker_session.cc)
constexpr double kRestartSeconds = 0.2;

struct FaultyCluster::Machine : SimMachine {
    int kills = 0;  // faults that keep it down
    int slows = 0;
    int drains = 0;                            // faults that want it emptied,
    int removes = 0;                           // and dismissed
    int lies = 0;                              // faults that let it lie,
    std::uint64_t lied_as = 0;                 // the incarnation that said what is not so,
    std::set<std::uint64_t> lied_before = {};  // and those before it
    int draws_wrong = 0;                       // and draw wrong tokens

    // As the coordinator's side of the transport has it.
    core::TimePoint last_heard;
    std::uint64_t epoch_sent = 0;
    std::optional<core::WorkerJoined> last_hello;
    bool falsely_lost = false;
};

inline FaultyCluster::Machine& FaultyCluster::ours(SimMachine& machine) {
    return static_cast<Machine&>(machine);
}

inline std::int32_t vertex(core::WorkerId id) {
    return static_cast<std::int32_t>(id.value);
}

}  // namespace helix::sim
