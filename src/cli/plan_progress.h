#pragma once

#include <chrono>

#include "plan/planner.h"

namespace helix::cli {

// Shows how a plan gets on, on standard error: one line that changes on a terminal, a line every
// ten seconds elsewhere. Silent for the first second.
class PlanProgressLine {
  public:
    PlanProgressLine();
    ~PlanProgressLine();
    PlanProgressLine(const PlanProgressLine&) = delete;
    PlanProgressLine& operator=(const PlanProgressLine&) = delete;
    void update(const plan::PlanProgress& progress);
    // Takes the line away, so that results can be written; the next update draws it again.
    void interrupt();

  private:
    std::chrono::steady_clock::time_point began_;
    std::chrono::steady_clock::time_point shown_;
    bool terminal_;
    bool drawn_ = false;
};

}  // namespace helix::cli
