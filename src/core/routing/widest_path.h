#pragma once

#include <functional>

#include "core/routing/pipeline_graph.h"

namespace helix::core {

// EdgeWidth says how wide an edge is; below 0: it is closed.
using EdgeWidth = std::function<double(std::int32_t edge)>;

struct WidePath {
    Path path;         // empty: all ways are closed
    double width = 0;  // of its narrowest edge
};

// Returns the path whose narrowest edge is widest. Ties go to the edges that were given first.
WidePath widest_path(const PipelineGraph& graph, const EdgeWidth& width);

}  // namespace helix::core
