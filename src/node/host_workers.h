#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "node/worker_options.h"
#include "node/worker_server.h"

namespace helix::node {

// The workers of one process: one for each device of the host that it computes with. Each joins by
// itself and is a node of its own; that one ends does not end the others.
class HostWorkers {
  public:
    // options: at least one; their names differ.
    explicit HostWorkers(std::vector<WorkerOptions> options);

    // As WorkerServer has them, until all workers have ended. Returns the error of the first, in
    // their order, that had one.
    base::Status run(const std::vector<std::string>& join);
    base::Status run(const CoordinatorPlace& place);
    // For any thread, and async-signal-safe.
    void stop();

  private:
    base::Status run_all(const std::function<base::Status(WorkerServer&)>& run);

    std::vector<std::string> names_;
    std::vector<std::unique_ptr<WorkerServer>> servers_;
};

}  // namespace helix::node
