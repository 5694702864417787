#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "sim/faults/faulty_cluster.h"

// One worker of a FaultyCluster; only faulty_cluster*.cc include this.

namespace helix::sim {

constexpr double kHelloRetrySeconds = 0.5;
constexpr double kDownSeconds = 2.5;  // heartbeats, and a grace (node/worker_session.cc)
constexpr double kRestartSeconds = 0.2;
constexpr double kSlowestLoad = 4;  // times; a slow machine reads its weights a little slower

struct FaultyCluster::Machine {
    core::WorkerId id;
    spec::NodeSpec node;
    std::int64_t kv_pages = 0;

    std::uint64_t incarnation = 0;
    bool alive = false;
    bool welcome = false;  // the coordinator has let this incarnation in
    int kills = 0;         // faults that keep it down
    int pauses = 0;        // faults that keep it still
    int slows = 0;
    int drains = 0;             // faults that want it emptied,
    int removes = 0;            // and dismissed
    int lies = 0;               // faults that let it lie,
    std::uint64_t lied_as = 0;  // the incarnation that said what is not so
    int draws_wrong = 0;        // and draw wrong tokens
    double slow = 1;
    std::vector<std::function<void()>> inbox;  // what came while it stood still
    std::unique_ptr<core::Worker> worker;
    std::unique_ptr<ToyEngine> engine;
    std::map<std::uint64_t, ToyRows> buffers;
    std::uint64_t next_buffer = 1;

    // As the coordinator's side of the transport has it.
    std::uint64_t session = 0;  // the incarnation it listens to; 0 = none
    core::TimePoint last_heard;
    std::uint64_t epoch_sent = 0;
    std::optional<core::WorkerJoined> last_hello;
    bool falsely_lost = false;
};

inline std::int32_t vertex(core::WorkerId id) {
    return static_cast<std::int32_t>(id.value);
}

}  // namespace helix::sim
