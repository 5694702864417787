#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/result.h"
#include "base/time.h"
#include "model/weight_source.h"
#include "net/zmq_transport.h"

namespace helix::node {

// Where a session finds its coordinator.
struct CoordinatorPlace {
    std::shared_ptr<net::ZmqContext> context;
    std::string endpoint;                          // "tcp://host:port" or "inproc://name"
    std::string public_key;                        // Z85, empty = without CURVE
    std::string listen_endpoint;                   // for peers
    std::shared_ptr<model::WeightSource> weights;  // in the same process; null = over the wire
};

using FindCoordinator = std::function<base::Result<CoordinatorPlace>()>;

// Looks for a coordinator on a thread of its own, since each look may take seconds, while whoever
// waits for one goes on with what it has.
class CoordinatorSearch {
  public:
    // Begins after the pause. done is woken when the search is over.
    CoordinatorSearch(FindCoordinator find, base::Duration pause, const net::Wakeup& done);
    ~CoordinatorSearch();  // waits for the look at hand
    CoordinatorSearch(const CoordinatorSearch&) = delete;
    CoordinatorSearch& operator=(const CoordinatorSearch&) = delete;

    // What was found, once: then the search is over. It goes on while there is nothing.
    std::optional<CoordinatorPlace> take();

  private:
    void work();

    FindCoordinator find_;
    base::Duration pause_;
    const net::Wakeup& done_;
    std::atomic<bool> stopping_{false};
    std::mutex mutex_;
    std::optional<CoordinatorPlace> found_;
    std::thread thread_;
};

}  // namespace helix::node
