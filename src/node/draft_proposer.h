#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "net/zmq_transport.h"
#include "node/draft_model.h"

namespace helix::node {

// Runs a DraftModel on a thread of its own; answers come back through take_answers() after a
// wake-up.
class DraftProposer {
  public:
    DraftProposer(std::unique_ptr<DraftModel> model, const net::Wakeup& done);
    ~DraftProposer();  // waits for the batch at hand
    DraftProposer(const DraftProposer&) = delete;
    DraftProposer& operator=(const DraftProposer&) = delete;

    void ask(core::ProposeDrafts question);
    void forget(core::RequestId id);
    std::vector<core::Drafted> take_answers();

  private:
    using Task = std::variant<core::ProposeDrafts, core::ForgetDrafts>;
    void push(Task task);
    void work();

    std::unique_ptr<DraftModel> model_;  // the thread's
    const net::Wakeup& done_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Task> tasks_;
    std::vector<core::Drafted> answers_;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace helix::node
