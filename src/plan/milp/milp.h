#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "plan/milp/milp_program.h"
#include "plan/milp/milp_stop.h"
#include "plan/milp/prune.h"
#include "plan/mip/solver.h"
#include "plan/problem/problem.h"
#include "spec/placement.h"

namespace helix::plan {

// The paper's planner with its three speed-ups, each on its own switch.
struct MilpOptions {
    MilpFormulation formulation;
    // 1: fewer links; nothing = all. The links that the start's flow needs always stay.
    std::optional<PruneOptions> prune;
    std::optional<spec::Placement> start;  // 2: a heuristic's placement as first incumbent
    std::string start_method;              // what made it, for people: "petals"
    MilpStopOptions stop;                  // 3: early stop
    double relative_gap = 0;               // the solver's own
    double upper_bound = 0;                // for early stop; 0: the paper's (Bounds::paper)
    std::string solver = "cbc";
};

// What the solver found, by itself: no other plan stands in for it.
struct MilpReport {
    std::string solver;
    spec::Placement placement;  // nodes may hold layers that get no flow
    double objective = 0;       // as the solver says
    double max_flow = 0;        // of the placement over the program's links, by our own max flow
    double bound = 0;           // no placement over these links is better (infinity: unknown)
    mip::Outcome status = mip::Outcome::stopped;  // without a solution the placement is empty

    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t links = 0;  // of the program, and of the cluster
    std::int64_t all_links = 0;
    std::int64_t nodes = 0;                                         // of branch and bound
    std::vector<std::pair<std::int32_t, std::int32_t>> only_links;  // after pruning; empty = all

    bool start_given = false;
    std::string start_method;  // what made the start
    bool start_used = false;   // the solver took it, and it carries something
    double start_flow = 0;     // of the start over the links used
    std::string start_note;    // why it was declined, in words; else empty
    MilpStop stop_reason = MilpStop::finished;
    std::vector<MilpIncumbent> incumbents;  // the start first, if it was taken
    double seconds = 0;

    bool proven() const { return status == mip::Outcome::optimal; }
    // A placement that carries something, beyond the solver's tolerance.
    bool found() const;
    // Better than the start; without one, found().
    bool improved() const;
    // Does our own maximum flow of the placement equal the solver's objective?
    bool agrees() const;
    double best_after_s() const;  // when the best came; 0: none did
};

// The placement of largest flow, by mixed-integer programming. CBC proves it up to about six nodes;
// beyond, this is for comparison and for stronger solvers. The bound and "optimal" speak of the
// links left after pruning. Errors: a solver that is unknown, missing or fails; a start that does
// not fit the nodes.
base::Result<MilpReport> milp_placement(const Problem& problem, const MilpOptions& options);

// The report in words, a line for each: the program, what was found, the start, the check.
std::string describe_milp(const MilpReport& report);

}  // namespace helix::plan
