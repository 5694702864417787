#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/backoff.h"
#include "base/result.h"
#include "node/worker_options.h"
#include "node/worker_session.h"

namespace helix::node {

// How one of several workers of a host is called: `name`, which may be "", and its device, like
// "den-vulkan0". invalid: it is too long, or the key is for a worker of one name.
base::Result<std::string> name_of_several(const std::string& name,
                                          const std::optional<net::WorkerKey>& key,
                                          const std::string& device);

// A worker, which joins its coordinator and serves. When the coordinator was gone it joins again as
// a new incarnation, with the weights that it has. When its device was lost it leaves, waits until
// the device proves itself again, longer each time, and joins again with nothing on it.
class WorkerServer {
  public:
    explicit WorkerServer(WorkerOptions options);

    // join is at least one "HOST:PORT", the coordinator's HTTP address or its cluster port. Where
    // there are several coordinators, of which one leads, all are named: they are tried in turn.
    // Runs until stop(), which is no error, or until something goes wrong that waiting cannot mend.
    base::Status run(const std::vector<std::string>& join);
    // The same in the coordinator's process.
    base::Status run(const CoordinatorPlace& place);
    // For any thread, and async-signal-safe.
    void stop();

  private:
    // next: as WorkerSession's find.
    base::Status run_sessions(const FindCoordinator& find, const FindCoordinator& next);
    void pause_until(base::TimePoint until);
    void regain_device(base::Backoff& again);

    WorkerOptions options_;
    net::Wakeup wakeup_;
    KeptModel kept_{wakeup_};
    std::atomic<bool> stopping_{false};
    std::uint64_t incarnation_ = 0;
    std::uint64_t term_ = 0;  // of the coordinators that it has joined, the highest
};

}  // namespace helix::node
