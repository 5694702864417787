#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "net/zmq_transport.h"
#include "node/node_provider.h"

namespace helix::node {

// Runs a NodeProvider on a thread of its own: what the coordinator's core::AutoScaler asks for.
// Failures come back through take_failures() after a wake-up.
class NodeScaler {
  public:
    NodeScaler(std::unique_ptr<NodeProvider> provider, const net::Wakeup& done);
    ~NodeScaler();  // waits for the call at hand; what the provider keeps ends with it
    NodeScaler(const NodeScaler&) = delete;
    NodeScaler& operator=(const NodeScaler&) = delete;

    // One more worker, under a name of its own. One that was started before and never joined is
    // stopped first, so that those do not pile up.
    void add();
    void on_joined(const std::string& name);
    // It holds nothing any more. Names that were not started here are left to whoever did.
    void remove(const std::string& name);
    // Why workers that were asked for will not come.
    std::vector<std::string> take_failures();

  private:
    struct Task {
        bool start = false;
        std::string name;
    };
    void push(Task task);
    void work();
    void perform(const Task& task);

    std::unique_ptr<NodeProvider> provider_;  // the thread's
    const net::Wakeup& done_;
    std::uint64_t started_ = 0;
    std::set<std::string> coming_;  // started, not joined yet
    std::set<std::string> here_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Task> tasks_;
    std::vector<std::string> failures_;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace helix::node
