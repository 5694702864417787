#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/flow/split.h"
#include "plan/flow/traffic.h"
#include "plan/predict/performance.h"
#include "plan/problem/problem.h"
#include "plan/search/throughput_search.h"
#include "spec/layer_range.h"
#include "spec/placement.h"

namespace helix::plan {

struct Scored {
    double score = 0;    // with limits held against it
    bool within = true;  // the limits
    std::int32_t scarce_layer = 0;
};

// Says what the performance models predict of placements, and how the limits are kept. Each thread
// needs its own. The references must outlive it.
class Assessor {
  public:
    using Layers = std::vector<spec::LayerRange>;

    Assessor(const Problem& problem, const Splitter& splitter, const ThroughputOptions& options)
        : problem_(problem), splitter_(splitter), options_(options) {}

    // The placement with the quick split. A score of 0: it serves nothing.
    Scored operator()(const Layers& layers);

    // A full candidate: its split is the predictions' best or a maximum flow, and nodes without
    // flow are left out. Nothing if it misses a limit.
    std::optional<ThroughputCandidate> finish(const Layers& layers, SplitBy split,
                                              const TrafficBuilder& builder);

  private:
    Scored score(const Layers& layers, std::span<const spec::LinkFlow> flows);
    std::optional<ThroughputCandidate> settle(ThroughputCandidate candidate,
                                              const TrafficBuilder& builder);
    double merit(const Estimate& estimate, const LengthMoments& lengths) const;
    // The least share of the flow that the loss of one machine leaves, by the quick split.
    double survival(const Layers& layers);

    Problem problem_;
    const Splitter& splitter_;
    const ThroughputOptions& options_;
    Splitter::Scratch scratch_;
    PerformanceScratch performance_;
    std::vector<spec::LinkFlow> flows_;
    std::vector<Estimate> estimates_;
    Layers rest_;
    std::vector<spec::LinkFlow> rest_flows_;
};

}  // namespace helix::plan
