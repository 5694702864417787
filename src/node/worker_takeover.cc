// How a worker's session goes from one coordinator to the next: without one it runs on, looks for
// the next, tells it what it holds, and is told nothing twice.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "node/clock.h"
#include "node/worker_session.h"
#include "wire/codec.h"

namespace helix::node {
namespace {

// After a coordinator that did not take us there is no hurry.
constexpr base::Duration kLookAgainAfter = base::from_ms(300);

// Whether what runs under the one can go on under the other: the worker has the same number, and
// the model with its pages is the same.
bool goes_on(wire::Welcome before, wire::Welcome after) {
    before.term = 0;
    after.term = 0;
    return wire::encode(before) == wire::encode(after);
}

}  // namespace

void WorkerSession::on_coordinator_gone(const std::string& reason) {
    if (result_.has_value()) return;
    const bool keeps = profiled_ && find_ && options_.coordinator_wait.ns > 0;
    if (!keeps) return end(SessionEnd::lost, reason);
    coordinator_.reset();
    const bool again = is_alone();
    if (!again) {
        LOG_WARN(
            "worker \"{}\": {}; what runs here goes on, and is kept {:.0f} s for the next "
            "coordinator",
            options_.name, reason, options_.coordinator_wait.seconds());
        alone_since_ = now();
        produced_ = {};
        kept_.fetcher.cancel(reason);
        step(core::CoordinatorLost{});
    } else {
        LOG_DEBUG("worker \"{}\": {}", options_.name, reason);
    }
    if (search_ != nullptr) return;
    search_ = std::make_unique<CoordinatorSearch>(find_, again ? kLookAgainAfter : base::Duration{},
                                                  wakeup_);
}

void WorkerSession::look_for_coordinator() {
    std::optional<CoordinatorPlace> found = search_->take();
    if (!found.has_value()) return;
    search_.reset();
    place_.endpoint = found->endpoint;
    place_.public_key = found->public_key;
    peers_->set_coordinator_host(endpoint_host(place_.endpoint));
    hello_.term = term_.highest();
    hello_.known_as = welcome_->worker;
    const base::Status called = call_coordinator();
    if (!called.ok()) on_coordinator_gone(called.error().message);
}

std::string WorkerSession::describe_old_term(std::uint64_t term) const {
    return fmt::format(
        "the coordinator at {} is an older one (term {}; there is one of term {}): it is refused",
        place_.endpoint, term, term_.highest());
}

void WorkerSession::on_next_welcome(const wire::Welcome& welcome) {
    if (!term_.may_join(welcome.term)) {
        return on_coordinator_gone(describe_old_term(welcome.term));
    }
    // The coordinator has given up what ran here when the connection broke.
    if (!term_.is_next(welcome.term)) {
        return end(SessionEnd::lost, "the connection to the coordinator broke");
    }
    if (!goes_on(*welcome_, welcome)) {
        return end(SessionEnd::lost,
                   "the next coordinator has another model or another number for this worker: "
                   "what ran here is dropped");
    }
    perform();  // what was done meanwhile is in what is held, and is not told apart from it
    core::Holding holding = worker_->holding();
    LOG_INFO(
        "worker \"{}\": the next coordinator is there after {:.1f} s; it is told of {} "
        "sequence(s) that run here",
        options_.name, (now() - *alone_since_).seconds(), holding.sequences.size());
    term_.join(welcome.term);
    welcome_ = welcome;
    alone_since_.reset();
    step(core::CoordinatorFound{});
    kept_.fetcher.begin(welcome.model_id);
    if (wire::encode(holding).size() > wire::kMaxMessageBytes) {
        LOG_WARN("what {} sequences have drawn is too much for one message: they are computed anew",
                 holding.sequences.size());
        holding.sequences.clear();
    }
    send(std::move(holding));
    send(report_);
    tell_tensors();
}

// Links to workers that this one has measured need not be measured again.
void WorkerSession::measure_new_peers(const std::vector<wire::ProbePeer>& peers) {
    for (const wire::ProbePeer& peer : peers) {
        const auto other = static_cast<std::int32_t>(peer.worker.value);
        const auto is_there = [&](const spec::LinkSpec& link) {
            return link.from == other || link.to == other;
        };
        if (std::any_of(report_.links.begin(), report_.links.end(), is_there)) continue;
        unmeasured_.insert(other);
    }
}

}  // namespace helix::node
