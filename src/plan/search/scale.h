#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "plan/flow/flow_graph.h"
#include "plan/problem/problem.h"
#include "plan/search/search.h"
#include "spec/placement.h"

// Placement of clusters of hundreds of machines, where annealing over all of them is hopeless.

namespace helix::plan {

struct ScaleOptions {
    std::uint64_t seed = 1;
    double upper_bound = 0;      // no flow is sought beyond it; 0 = unknown
    std::function<bool()> stop;  // asked often, by any thread of the executor; true ends it soon
    Executor executor = {};      // without one the jobs run one after the other
    std::int64_t exchanges = 2'000'000;   // tried when nodes are dealt to the slots of a plan
    std::int64_t iterations = 1'000'000;  // moves of the annealing that follows where it is of use
};

// The best of two ways:
// * cells: nodes that wide links connect plan for themselves by block packing, and their flows add
//   up; no link between cells is used;
// * one block plan for all, without a look at links, whose slots are then dealt to the nodes of
//   their types so that what leaves a cell's nodes at a boundary meets nodes of the same cell.
// Up to 200 nodes annealing follows from there. Flow is the maximum flow over the real links. The
// block plans use no partial inference and are valid with it.
SearchResult search_large(const Problem& problem, const FlowOptions& flow,
                          const ScaleOptions& options);

// A placement in which the node `lost` holds nothing any more. Where its cell had flow of its own,
// that cell alone is searched again, from what it holds, so that little moves and the time does not
// grow with the cluster; elsewhere all nodes are. options.upper_bound and exchanges are not used.
SearchResult repair_large(const Problem& problem, const FlowOptions& flow,
                          const spec::Placement& placement, std::int32_t lost,
                          const ScaleOptions& options);

}  // namespace helix::plan
