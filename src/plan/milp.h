#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/capacity.h"
#include "plan/milp_program.h"
#include "plan/milp_stop.h"
#include "plan/mip/solver.h"
#include "plan/prune.h"
#include "spec/cluster_spec.h"
#include "spec/model_spec.h"
#include "spec/placement.h"

namespace helix::plan {

// The paper's planner with its three speed-ups, each on its own switch.
struct MilpOptions {
    MilpFormulation formulation;
    std::optional<PruneOptions> prune;     // 1: fewer links; nothing = all
    std::optional<spec::Placement> start;  // 2: a heuristic's placement as first incumbent
    MilpStopOptions stop;                  // 3: early stop
    double relative_gap = 0;               // the solver's own
    double upper_bound = 0;                // for early stop; 0: the paper's (Bounds::paper)
    std::string solver = "cbc";
};

struct MilpReport {
    spec::Placement placement;  // nodes may hold layers that get no flow
    double objective = 0;       // as the solver says
    double max_flow = 0;        // of the placement over the links used: the other side of the proof
    double bound = 0;           // no placement over these links is better (infinity: unknown)
    mip::Outcome status = mip::Outcome::stopped;  // without a solution the placement is empty

    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t links = 0;  // of the program, and of the cluster
    std::int64_t all_links = 0;
    std::int64_t nodes = 0;  // of branch and bound

    bool start_used = false;
    double start_flow = 0;   // of the start over the links used: pruning may have cut it off
    std::string start_note;  // why it was not used, in words; else empty
    MilpStop stop_reason = MilpStop::finished;
    std::vector<MilpIncumbent> incumbents;
    double seconds = 0;

    bool proven() const { return status == mip::Outcome::optimal; }
};

// The placement of largest flow, by mixed-integer programming. CBC proves it up to about six nodes;
// beyond, this is for comparison and for stronger solvers. The bound and "optimal" speak of the
// links left after pruning. Errors: a solver that is unknown, missing or fails; a start that does
// not fit the nodes.
base::Result<MilpReport> milp_placement(const spec::ClusterSpec& cluster,
                                        const spec::ModelSpec& model,
                                        const CapacityTable& capacities,
                                        const MilpOptions& options);

}  // namespace helix::plan
