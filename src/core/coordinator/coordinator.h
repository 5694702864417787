#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/coordinator/coordinator_config.h"
#include "core/protocol/cluster_view.h"
#include "core/protocol/coordinator_actions.h"
#include "core/protocol/coordinator_events.h"

namespace helix::core {

// The cluster's policy: admission, routing, placement changes, what is streamed. Deterministic; no
// I/O.
//
// Promises: an accepted request gets its tokens in order, each once, and exactly one FinishRequest;
// a request that can never fit is rejected with the reason; one that does not fit now waits, by
// priority and then arrival; one that must give its pages back continues later with the same
// tokens; when a worker is lost its requests go on elsewhere, by recompute, with the next token;
// when no placement can serve them for unserved_timeout they end with an error that says so.
class Coordinator {
  public:
    explicit Coordinator(const CoordinatorConfig& config);
    ~Coordinator();
    Coordinator(Coordinator&&) noexcept;
    Coordinator& operator=(Coordinator&&) noexcept;

    void step(TimePoint now, const CoordinatorEvent& event,
              std::vector<CoordinatorAction>& actions);
    ClusterView view() const;
    // Returns the number of the placement in force, 0 = none yet. Another placement has another
    // number.
    std::uint64_t epoch() const;
    // Returns the placement that was put in force last, for CoordinatorConfig::remembered of the
    // coordinator after this one; null before the first.
    const RememberedPlacement* placement_in_force() const;
    // Returns the names of the workers that are drained, and of those that are not here.
    std::vector<RememberedDrain> drains() const;

    struct Impl;
    const Impl& impl() const { return *impl_; }  // for Invariants

  private:
    std::unique_ptr<Impl> impl_;
};

}  // namespace helix::core
