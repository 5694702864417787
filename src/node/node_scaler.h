#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/time.h"
#include "net/zmq_transport.h"
#include "node/node_provider.h"

namespace helix::node {

// Runs a NodeProvider on a thread of its own, as the coordinator's core::AutoScaler asks. A worker
// that had joined and then ended by itself is started again, after a pause that doubles with each
// time. Failures come back through take_failures() after a wake-up.
class NodeScaler {
  public:
    struct Times {
        base::Duration first_pause = base::from_seconds(1);
        base::Duration join_within = base::from_seconds(300);
    };
    NodeScaler(std::unique_ptr<NodeProvider> provider, const net::Wakeup& done, Times times);
    ~NodeScaler();  // waits for the call at hand; the provider's processes end with it
    NodeScaler(const NodeScaler&) = delete;
    NodeScaler& operator=(const NodeScaler&) = delete;

    // Starts one more worker, under a name of its own. Workers that should have joined long ago are
    // stopped first, so that they do not pile up; if one was to be started again, the new one comes
    // in its place.
    void add();
    void on_joined(const std::string& name);
    // Stops a worker that holds nothing any more. Workers that were not started here are left
    // alone.
    void remove(const std::string& name);
    // Why workers that were asked for will not come.
    std::vector<std::string> take_failures();

  private:
    struct Task {
        bool start = false;
        std::string name;
        base::TimePoint due = {};
    };
    struct Crashes {
        int in_a_row = 0;
        base::TimePoint joined;
    };
    void push(Task task);
    void start_again(const NodeProvider::Ended& ended);
    void work();
    std::vector<Task> take_due();
    void perform(const Task& task);
    void tell(NodeProvider::Ended ended);

    std::unique_ptr<NodeProvider> provider_;  // the thread's
    const net::Wakeup& done_;
    Times times_;
    std::uint64_t started_ = 0;
    std::map<std::string, base::TimePoint> coming_;  // have to join by this time
    std::map<std::string, Crashes> here_;            // joined once, and not removed
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Task> tasks_;
    std::vector<NodeProvider::Ended> ended_;  // or could not be started
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace helix::node
