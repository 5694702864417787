#pragma once

#include <functional>

#include "core/routing/pipeline_graph.h"

namespace helix::core {

// EdgeWidth says how wide an edge is; below 0: it is closed.
using EdgeWidth = std::function<double(std::int32_t edge)>;

// Returns a width for an edge whose head is so free: it rises with freeness, which may be negative
// or infinite, and is never below 0.
double width_of(double freeness);

struct WidePath {
    Path path;         // empty: all ways are closed
    double width = 0;  // of its narrowest edge
};

// Returns the path whose narrowest edge is widest. Ties go to the edges that were given first.
WidePath widest_path(const PipelineGraph& graph, const EdgeWidth& width);

}  // namespace helix::core
