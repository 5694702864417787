#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

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

    // join is "HOST:PORT", the coordinator's HTTP address or its cluster port. Runs until stop(),
    // which is no error, or until something goes wrong that waiting cannot mend.
    base::Status run(const std::string& join);
    // The same in the coordinator's process.
    base::Status run(const CoordinatorPlace& place);
    // For any thread, and async-signal-safe.
    void stop();

  private:
    base::Result<CoordinatorPlace> find(const std::string& join);
    base::Result<std::string> find_public_key(const std::string& offered,
                                              const std::string& host) const;
    template <typename Find>
    base::Status run_sessions(const Find& find);
    void pause_until(base::TimePoint until);
    void regain_device(base::Backoff& again);

    WorkerOptions options_;
    std::shared_ptr<net::ZmqContext> context_;
    net::Wakeup wakeup_;
    KeptModel kept_{wakeup_};
    std::atomic<bool> stopping_{false};
    std::uint64_t incarnation_ = 0;
    bool asked_over_http_ = false;  // HTTP was answered, so what we join is the HTTP address
};

}  // namespace helix::node
