#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "core/protocol/batch_plan.h"
#include "engine/backend/provider.h"
#include "net/zmq_frame.h"
#include "net/zmq_transport.h"
#include "node/kept_model.h"

namespace helix::node {

// What the engine has done, in the order of the tasks.
struct EngineProfiled {
    base::Result<engine::SelfProfile> profile;
    bool lost = false;  // profile is an error, and the device does not work at all
};
struct EngineLoaded {
    std::uint64_t epoch = 0;
    spec::LayerRange layers;
    base::Result<std::int64_t> pages;
    std::int64_t read_bytes = 0;  // of weights; what was held already is not read again
    base::Duration took;
    std::string read_from = {};  // as WeightTally says it; "" for local files
    std::int64_t swap_pages = 0;
    // Gives access to pages that move to and from other workers; null where they do not move.
    std::shared_ptr<engine::Backend> backend;
    bool lost = false;  // pages is an error, since the device is gone
};
struct EngineRan {
    std::uint64_t batch = 0;
    base::Result<engine::BatchResult> result;
    base::Duration took;
    bool lost = false;  // result is an error, since the device is gone
};
using EngineEvent = std::variant<EngineProfiled, EngineLoaded, EngineRan>;

// Runs a Backend on a thread of its own, so that the loop that owns this stays responsive. Tasks
// run in order; their ends come back through take_events() after a wake-up.
class EngineThread {
  public:
    // speed below 1 slows batches down to that share (to try unequal machines on equal ones). kept,
    // with the backend, is the thread's as long as this lives.
    EngineThread(std::shared_ptr<engine::BackendProvider> provider, engine::BackendRequest request,
                 double speed, KeptModel& kept, const net::Wakeup& done);
    ~EngineThread();  // waits for the task at hand
    EngineThread(const EngineThread&) = delete;
    EngineThread& operator=(const EngineThread&) = delete;

    void profile();
    void load(std::uint64_t epoch, spec::LayerRange layers);
    // buffers has every payload that the plan names.
    void run(core::BatchPlan plan, std::map<std::uint64_t, net::Frame> buffers);
    std::vector<EngineEvent> take_events();

  private:
    struct ProfileTask {};
    struct LoadTask {
        std::uint64_t epoch = 0;
        spec::LayerRange layers;
    };
    struct RunTask {
        core::BatchPlan plan;
        std::map<std::uint64_t, net::Frame> buffers;
    };
    using Task = std::variant<ProfileTask, LoadTask, RunTask>;

    void push(Task task);
    void work();
    EngineEvent perform(const ProfileTask& task);
    EngineEvent perform(const LoadTask& task);
    EngineEvent perform(const RunTask& task);
    bool is_useless(base::Errc failed) const;
    base::Result<std::int64_t> load_layers(spec::LayerRange layers);

    std::shared_ptr<engine::BackendProvider> provider_;
    engine::BackendRequest request_;
    double speed_;
    // Used by the thread; others only read and write KV pages that no batch uses.
    KeptModel& kept_;
    const net::Wakeup& done_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Task> tasks_;
    std::vector<EngineEvent> events_;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace helix::node
