#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/search/throughput_search.h"

namespace helix::plan {

// A plan that a search has found.
struct KnownPlan {
    ThroughputCandidate candidate;
    // Judged over predicted of the one it descends from: what a prediction near it is worth.
    double trust = 1;
    double glance = 0;     // the merit of its glance; 0 = not glanced at
    bool changed = false;  // it is a change of one that was judged, and goes before what was not
    double promise() const { return candidate.score * trust; }
    Look look() const { return candidate.judgement.look; }
};

// PlanPool has the plans that a search knows, best first, and has them judged.
class PlanPool {
  public:
    // The options must outlive the pool.
    explicit PlanPool(const ThroughputOptions& options) : options_(options) {}

    // Placements that differ only in which of two equal machines does what are the same one; their
    // scores tell. Returns whether this one was new.
    bool add(KnownPlan plan);
    // Judged ones first, by look and judgement; then by what they promise.
    void sort();
    void shorten(std::size_t most);  // after sort()

    // Glances at most so many of those that nobody has looked at; after sort().
    void glance(std::size_t most);
    // Looks longer at most so many of those whose last look was the one before, the best first, if
    // their glance was at least this good beside the best of all glances; after sort().
    void look_longer(Look look, std::size_t most, double least_glance = 0);

    bool empty() const { return plans_.empty(); }
    std::vector<KnownPlan>& plans() { return plans_; }
    // How many of the first plans had this look or a longer one; after sort().
    std::size_t count(Look look) const;
    // The mean trust of those that had a full look; 1 without any.
    double mean_trust() const;
    std::int32_t judged() const { return judged_; }

  private:
    void judge(const std::vector<std::size_t>& which, Look look);

    const ThroughputOptions& options_;
    std::vector<KnownPlan> plans_;
    std::int32_t judged_ = 0;
};

}  // namespace helix::plan
