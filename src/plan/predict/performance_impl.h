#pragma once

#include <cstdint>
#include <vector>

#include "plan/predict/layer_curves.h"
#include "plan/predict/performance.h"
#include "plan/problem/problem.h"

// What the parts of the performance model share; not for others.

namespace helix::plan {

struct PerformanceModel::Impl {
    Impl(const Problem& problem, const spec::CostModel& costs, const PerformanceOptions& options);

    double groups(const Traffic& traffic) const;
    const LayerCurves& curves(std::int32_t node) const {
        return curves_[curve_of_[static_cast<std::size_t>(node)]];
    }
    // Seconds that a link is busy with one row, and its latency.
    double row_s(const Traffic::Hop& hop) const {
        const spec::LinkSpec& link = problem.cluster.links[static_cast<std::size_t>(hop.link)];
        const bool outside = hop.from < 0 || hop.to < 0;
        return (outside ? token_bytes : activation_bytes) / link.bandwidth_bytes_per_s;
    }
    double latency_s(const Traffic::Hop& hop) const {
        return problem.cluster.links[static_cast<std::size_t>(hop.link)].latency_s;
    }

    Problem problem;
    PerformanceOptions options;
    TrafficBuilder builder;
    double activation_bytes;
    double token_bytes;

  private:
    std::vector<LayerCurves> curves_;
    std::vector<std::size_t> curve_of_;  // [node]
};

// The times at a decode rate of x tokens/s.
struct RoundTrip {
    double decode_s = 0;  // between two tokens of a request
    double prompt_s = 0;  // from admission to its first token
};

// How many requests find KV memory at a time, and which layers are short of it.
struct Room {
    double requests = 0;
    spec::LayerRange layers;
};
Room kv_room(const PerformanceModel::Impl& model, std::span<const spec::LayerRange> layers,
             PerformanceScratch& scratch);

// The rate at which a machine or link is as good as always busy: round trips exist below it.
struct Saturation {
    double decode_tokens_per_s = 0;
    PerformanceLimit limit;
};
Saturation reference_saturation(const PerformanceModel::Impl& model, const Traffic& traffic);
Saturation helix_saturation(const PerformanceModel::Impl& model, const Traffic& traffic);

// scratch.loads is filled, and serves as the guess of the next call.
RoundTrip reference_round_trip(const PerformanceModel::Impl& model, PerformanceScratch& scratch,
                               double decode_tokens_per_s);
RoundTrip helix_round_trip(const PerformanceModel::Impl& model, PerformanceScratch& scratch,
                           double decode_tokens_per_s);

}  // namespace helix::plan
