#include "cli/plan_output.h"

#include <unistd.h>

#include <cstdio>

#include "plan/report/plan_json.h"
#include "spec/text_file.h"
#include "view/plan/plan_picture.h"
#include "view/plan/plan_svg.h"

namespace helix::cli {

spec::PlacementFile placement_file(const Problem& problem, const plan::PlanReport& report) {
    spec::PlacementFile file{.cluster = problem.cluster.name,
                             .model = problem.model.name,
                             .method = report.method,
                             .n_layers = problem.model.n_layers,
                             .placement = report.placement,
                             .node_types = {},
                             .node_names = {},
                             .links = {},
                             .flows = report.flows,
                             .max_flow_tokens_per_s = report.max_flow_tokens_per_s};
    for (const spec::NodeSpec& node : problem.cluster.nodes) {
        file.node_types.push_back(node.type);
        file.node_names.push_back(node.name);
    }
    for (const spec::LinkFlow& flow : report.flows) file.links.emplace_back(flow.from, flow.to);
    return file;
}

base::Status write_plan_files(const PlanArguments& a, const Problem& problem,
                              const plan::PlanReport& report) {
    if (!a.output.empty()) {
        TRY_VOID(spec::write_placement_file(a.output, placement_file(problem, report)));
    }
    if (!a.svg.empty()) {
        TRY_VOID(spec::write_text_file(
            a.svg, view::draw_plan_svg(problem.cluster, problem.model, report)));
    }
    return base::Ok{};
}

base::Status show_plan(const PlanArguments& a, const Problem& problem,
                       const plan::PlanReport& report, double seconds) {
    TRY_VOID(write_plan_files(a, problem, report));
    const std::string shown =
        a.json ? plan::plan_to_json(problem.cluster, problem.model, report, seconds) + "\n"
               : view::draw_plan(problem.cluster, problem.model, report,
                                 {.colours = isatty(STDOUT_FILENO) != 0, .flows = true}) +
                     plan::describe_stalls(report.stalls, {}) +
                     (report.milp ? "\n" + plan::describe_milp(*report.milp) : std::string());
    std::fputs(shown.c_str(), stdout);
    return base::Ok{};
}

}  // namespace helix::cli
