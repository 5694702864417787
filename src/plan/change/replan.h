#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/change/placement_diff.h"
#include "plan/flow/flow_graph.h"
#include "plan/problem/problem.h"
#include "spec/placement.h"

namespace helix::plan {

struct ReplanOptions {
    FlowOptions flow = {};
    // Tokens/s given up rather than load one byte more, or drop one more layer with its KV.
    // move_price() is a sensible first.
    double price_per_byte = 0;
    double price_per_kv_layer = 0;
    // What is wanted besides flow, in tokens/s (a predicted throughput): judges the best dozen
    // placements by flow. Without it the flow decides.
    std::function<double(const spec::Placement&)> objective = {};
    double disk_bytes_per_s = 1e9;  // for the report (placement_diff)
    std::uint64_t seed = 1;
    std::int64_t iterations = 300'000;  // moves tried in all
    std::function<bool()> stop = {};    // asked every few moves; the best so far is returned
};

struct ReplanReport {
    spec::Placement placement;
    double flow_before = 0;  // of the current placement on this cluster
    double flow = 0;
    double value = 0;  // objective (or flow) less the price of the moves
    PlacementDiff diff;
    std::int64_t iterations = 0;
};

// A price per byte: as if the whole cluster stood still while bytes are read at this speed, and
// that loss were spread over horizon_s.
double move_price(double tokens_per_s, double bytes_per_s, double horizon_s);

// A placement near the current one: the search starts there, and whatever moves must be worth its
// price. Never worth less than staying; where the current placement serves nothing (a layer is
// lost), it finds one that does if the moves tried are enough. `current` must fit the cluster
// (carry_over of cluster_change.h after machines came or went). Errors: it does not fit, or nothing
// that serves was found.
base::Result<ReplanReport> replan(const Problem& problem, const spec::Placement& current,
                                  const ReplanOptions& options);

// The same for large clusters: only machines of these regions may move (those that lost one), and
// the flow is what these regions serve by themselves, as if the others were not there. Its cost
// does not grow with the rest of the cluster. Placement, moves and value are of the whole.
base::Result<ReplanReport> replan_regions(const Problem& problem, const spec::Placement& current,
                                          const std::vector<std::string>& regions,
                                          const ReplanOptions& options);

}  // namespace helix::plan
