#include "cli/plan_output.h"

#include <unistd.h>

#include <cstdio>

#include "lab/planning/plan_session.h"
#include "plan/losses/takeover_bound.h"
#include "plan/report/plan_json.h"
#include "spec/placement_file.h"
#include "spec/text_file.h"
#include "view/plan/plan_picture.h"
#include "view/plan/plan_svg.h"

namespace helix::cli {

base::Status write_plan_files(const PlanArguments& a, const lab::Problem& problem,
                              const plan::PlanReport& report) {
    if (!a.output.empty()) {
        TRY_VOID(spec::write_placement_file(a.output, lab::placement_file(problem, report)));
    }
    if (!a.svg.empty()) {
        TRY_VOID(spec::write_text_file(
            a.svg, view::draw_plan_svg(problem.cluster, problem.model, report)));
    }
    return base::Ok{};
}

base::Status show_plan(const PlanArguments& a, const lab::Problem& problem,
                       const plan::PlanReport& report, double seconds) {
    TRY_VOID(write_plan_files(a, problem, report));
    const std::string shown =
        a.json ? plan::plan_to_json(problem.cluster, problem.model, report, seconds) + "\n"
               : view::draw_plan(problem.cluster, problem.model, report,
                                 {.colours = isatty(STDOUT_FILENO) != 0, .flows = true}) +
                     plan::describe_stalls(report.stalls, {}) + plan::describe_takeover({}) + "\n" +
                     (report.milp ? "\n" + plan::describe_milp(*report.milp) : std::string());
    std::fputs(shown.c_str(), stdout);
    return base::Ok{};
}

}  // namespace helix::cli
