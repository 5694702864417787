#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/protocol/types.h"
#include "spec/cluster_spec.h"

namespace helix::api {

// What the planner says of the placement in force (plan/report/plan_report.h), with workers in
// place of its nodes. Flows are in tokens/s, those of prompts and of answers alike.
struct PlanFigures {
    std::uint64_t epoch = 0;  // of the placement that it speaks of
    std::string method;       // what found the placement: "search", "even", ...
    double max_flow_tokens_per_s = 0;
    double upper_bound_tokens_per_s = 0;  // of any placement on these workers
    double gap = 0;                       // 1 - max flow / bound
    bool proven_optimal = false;
    std::string limited_by;  // the minimum cut in words

    struct Node {
        core::WorkerId worker;
        double most_tokens_per_s = 0;  // that it computes with its layers
        double flow_tokens_per_s = 0;  // planned through it
    };
    std::vector<Node> nodes;  // those with layers

    // One part of the minimum cut.
    enum class CutKind : std::uint8_t {
        machine,      // what `from` computes
        network_in,   // what comes to `from`, a worker or the coordinator, from all others
        network_out,  // what goes from it
        link,         // from -> to
        trunk,        // all links from one region to another
    };
    struct CutPart {
        CutKind kind = CutKind::machine;
        std::int32_t from = spec::kCoordinator;  // worker ids
        std::int32_t to = spec::kCoordinator;
        std::string from_region = {};  // of a trunk
        std::string to_region = {};
    };
    std::vector<CutPart> cut;
};

}  // namespace helix::api
