#pragma once

#include <cstdint>

#include "core/protocol/types.h"

namespace helix::core {

// PromptWindow says how many prompt rows may be on their way through the pipelines. More would only
// wait inside, where they hold KV memory and nobody can go first, instead of in the queue.
//
// A prompt of n rows that took t from its start to its first token moves the window by n / 2 *
// (min(target / t, 2) - 1) rows: prompts that take longer than the target narrow it, and quicker
// ones widen it where it has kept others waiting. So under load it settles at the rows that the
// cluster prefills in the target time (Little's law), whatever that cluster is. It is never below
// two prompts of the mean length, nor below two small batches for every worker: a narrower one
// would leave workers without prompts to work on.
class PromptWindow {
  public:
    explicit PromptWindow(Duration target) : target_(target) {}

    void set_workers(std::int64_t count);  // the workers of the placement in force

    bool open() const { return in_flight_ == 0 || static_cast<double>(in_flight_) < rows_; }
    // A prompt waits for nothing but the window.
    void note_blocked() { blocked_ = true; }
    void start(std::int64_t rows);
    void finish(std::int64_t rows, Duration took);  // its first token came
    void abandon(std::int64_t rows) { in_flight_ -= rows; }

    double rows() const { return rows_; }
    std::int64_t in_flight() const { return in_flight_; }

  private:
    Duration target_;
    double rows_ = 8192;
    double least_rows_ = 0;
    double mean_rows_ = 0;
    std::int64_t in_flight_ = 0;
    bool blocked_ = false;  // a prompt waited since the last one finished
};

}  // namespace helix::core
