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
    double full = 0;       // and of its full look
    bool changed = false;  // it is a change of one that was judged, and goes before what was not
    double promise() const { return candidate.score * trust; }
    Look look() const { return candidate.judgement.look; }
};

// PlanPool has the plans that a search knows, best first, and has them judged: the judged ones
// first, by look and judgement; then by what they promise.
class PlanPool {
  public:
    // The options must outlive the pool.
    explicit PlanPool(const ThroughputOptions& options) : options_(options) {}

    // Placements that differ only in which of two equal machines does what are the same one; their
    // scores tell. Under another policy or with other roles it is another plan. Returns whether
    // this one was new.
    bool add(KnownPlan plan);
    // Adds those that are new, and judges them by this look at once. Returns how many were new.
    std::size_t judge_new(std::vector<KnownPlan> plans, Look look);
    void shorten(std::size_t most);

    // Glances at most so many of those that nobody has looked at.
    void glance(std::size_t most);
    // Looks longer at most so many of those whose last look was the one before, the best first, if
    // that look was at least this good beside the same look at the plan that is best so far:
    // another one that only seemed good then is no measure. A last look is under the policy of the
    // best.
    void look_longer(Look look, std::size_t most, double least_before = 0);

    bool empty() const { return plans_.empty(); }
    // The references hold until the next plan is added or judged.
    const std::vector<KnownPlan>& plans();
    std::vector<KnownPlan> take_plans();
    // How many of the first plans had this look or a longer one.
    std::size_t count(Look look);
    // The mean trust of those that had a full look; 1 without any.
    double mean_trust() const;
    // How long a full look took on average, as a share of the search's time; 0 where there was none
    // or options.time_used is not known.
    double full_look_share() const;
    std::int32_t judged() const { return judged_; }

  private:
    void sort();
    void judge(const std::vector<std::size_t>& which, Look look);
    bool judge_one(KnownPlan& plan, Look look) const;
    void count_judged(const std::vector<std::size_t>& which, Look look);

    const ThroughputOptions& options_;
    std::vector<KnownPlan> plans_;
    bool sorted_ = true;
    std::int32_t judged_ = 0;
    double full_looks_time_ = 0;  // all together, as shares of the search's time
    std::int32_t full_looks_ = 0;
};

}  // namespace helix::plan
