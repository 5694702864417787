#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/protocol/worker_actions.h"
#include "core/protocol/worker_config.h"
#include "core/protocol/worker_events.h"

namespace helix::core {

// Worker is one worker's policy: which rows run next and where their KV lives. It is deterministic
// and does no I/O.
//
// It promises: rows of a sequence run in order and once; a batch holds at most one chunk of a
// sequence; decodes go before prefill chunks, by priority and arrival; pages of a freed sequence
// are back in the pool before the next batch is planned; input for a superseded or freed sequence
// is dropped silently.
class Worker {
  public:
    Worker(WorkerId self, const WorkerConfig& config);
    ~Worker();
    Worker(Worker&&) noexcept;
    Worker& operator=(Worker&&) noexcept;

    void step(TimePoint now, const WorkerEvent& event, std::vector<WorkerAction>& actions);
    // These change nothing. They ask for the memory that a step will touch, so that it is there by
    // then: where many workers take turns on one processor, it would be waited for. What a message
    // or the end of the batch needs is asked for in steps, some microseconds apart, from 1 to 3.
    void prefetch() const;
    void prefetch(const StageInputs& coming, int step) const;
    void prefetch_batch(int step) const;
    // Returns what the worker holds, for a coordinator that does not know it.
    Holding holding() const;

    struct Impl;
    const Impl& impl() const { return *impl_; }  // for Invariants

  private:
    std::unique_ptr<Impl> impl_;
};

}  // namespace helix::core
