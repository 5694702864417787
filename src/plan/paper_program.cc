#include "plan/paper_program.h"

#include <vector>

#include "plan/bounds/bounds.h"
#include "plan/plan_candidates.h"

namespace helix::plan {

base::Result<MilpReport> solve_paper_program(const Problem& problem, const PlanOptions& options) {
    MilpOptions milp = options.milp;
    milp.formulation.partial = options.flow.partial;
    if (milp.upper_bound == 0) milp.upper_bound = flow_bounds(problem).best;
    if (!milp.stop.asked) milp.stop.asked = options.stop;
    if (options.milp_start == MilpStart::rules && !milp.start) {
        PlanOptions all_rules = options;
        all_rules.method = Method::milp;
        TRY(std::vector<Candidate> rules, rule_candidates(problem, all_rules));
        for (Candidate& rule : rules) judge_flow(problem, options.flow, rule);
        start_from_most_flow(rules, milp);
    }
    return milp_placement(problem, milp);
}

}  // namespace helix::plan
