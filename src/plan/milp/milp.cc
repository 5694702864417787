#include "plan/milp/milp.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <utility>

#include "base/check.h"
#include "plan/bounds/bounds.h"
#include "plan/flow/flow_graph.h"

namespace helix::plan {
namespace {

using Links = std::vector<std::pair<std::int32_t, std::int32_t>>;

constexpr double kNothing = 1e-3;  // tokens/s: less is the solver's tolerance, and no flow

Links all_links(const spec::ClusterSpec& cluster) {
    Links links;
    for (const spec::LinkSpec& link : cluster.links) {
        if (link.from != spec::kCoordinator || link.to != spec::kCoordinator)
            links.emplace_back(link.from, link.to);
    }
    return links;
}

// The links that a start's flow runs over.
Links links_of_start(const Problem& problem, const spec::Placement& start, bool partial) {
    const FlowOptions options{.partial = partial, .convention = Convention::paper};
    const FlowPlan flow = plan_flow(problem.cluster, build_flow_graph(problem, start, options));
    Links links;
    for (const spec::LinkFlow& link : flow.links) links.emplace_back(link.from, link.to);
    return links;
}

std::string why_declined(const MilpReport& report) {
    if (report.start_used) return "";
    if (report.start_flow <= kNothing) return "it carries nothing over the program's links";
    return report.solver + " did not take it";
}

}  // namespace

base::Result<MilpReport> milp_placement(const Problem& problem, const MilpOptions& options) {
    TRY(const std::unique_ptr<mip::Solver> solver, mip::make_solver(options.solver));
    if (options.start) {
        TRY_VOID(check_placement(problem, *options.start));
    }
    Links links = all_links(problem.cluster);
    const std::size_t n_all = links.size();
    if (options.prune) {
        Links keep;
        if (options.start) {
            keep = links_of_start(problem, *options.start, options.formulation.partial);
        }
        links = prune_links(problem.cluster, *options.prune, keep);
    }
    const MilpProgram milp(problem, links, options.formulation);
    MilpReport report;
    report.rows = static_cast<std::int64_t>(milp.program().rows.size());
    report.columns = static_cast<std::int64_t>(milp.program().columns.size());
    report.links = static_cast<std::int64_t>(links.size());
    report.all_links = static_cast<std::int64_t>(n_all);
    report.solver = options.solver;
    if (options.prune) report.only_links = links;

    mip::SolveOptions solve{.start = {}, .relative_gap = options.relative_gap, .stop = {}};
    if (options.start) {
        solve.start = milp.start(*options.start);
        report.start_flow = milp.flow(*options.start);
        report.start_given = true;
        report.start_method = options.start_method;
    }
    const double upper_bound =
        options.upper_bound > 0 ? options.upper_bound : flow_bounds(problem).paper;
    MilpWatch watch(options.stop, upper_bound);
    solve.stop = [&watch](double best, double bound) { return watch.stop(best, bound); };
    TRY(const mip::Solution solution, solver->solve(milp.program(), solve));

    report.status = solution.outcome;
    report.bound = solution.bound;
    report.nodes = solution.nodes;
    report.start_used = solution.start_used && report.start_flow > kNothing;
    if (options.start) report.start_note = why_declined(report);
    report.placement.layers.resize(problem.cluster.nodes.size());
    report.stop_reason = watch.reason();
    if (!solution.values.empty()) {
        report.placement = milp.placement(solution.values);
        report.objective = solution.objective;
        report.max_flow = milp.flow(report.placement);
        watch.stop(solution.objective, solution.bound);  // what came after the last question
    }
    report.incumbents = watch.incumbents();
    report.seconds = watch.seconds();
    return report;
}

bool MilpReport::found() const {
    return max_flow > kNothing;
}

bool MilpReport::improved() const {
    return found() && max_flow > (start_used ? start_flow * (1 + 1e-6) : 0);
}

bool MilpReport::agrees() const {
    return std::abs(max_flow - objective) <= kNothing + 1e-6 * std::abs(objective);
}

double MilpReport::best_after_s() const {
    return incumbents.empty() ? 0 : incumbents.back().seconds;
}

std::string describe_milp(const MilpReport& r) {
    std::string text =
        fmt::format("the paper's program: {} variables, {} constraints, {} of {} links\n",
                    r.columns, r.rows, r.links, r.all_links);
    const std::string bound = std::isfinite(r.bound) ? fmt::format("{:.2f}", r.bound) : "unknown";
    const std::string end = fmt::format("{} after {:.1f} s, {} nodes; bound {} tokens/s{}",
                                        r.proven() ? "proven" : to_string(r.stop_reason), r.seconds,
                                        r.nodes, bound, r.proven() ? "" : ", not proven");
    if (!r.found()) {
        text += fmt::format("{} found nothing that carries a token ({})\n", r.solver, end);
    } else if (!r.improved()) {
        text += fmt::format("{} found nothing better than its start ({})\n", r.solver, end);
    } else {
        text += fmt::format("{} found {:.2f} tokens/s after {:.1f} s ({})\n", r.solver, r.objective,
                            r.best_after_s(), end);
    }
    if (!r.start_given) {
        text += "start: none\n";
    } else {
        text += fmt::format("start: {}, {:.2f} tokens/s over these links, {}\n", r.start_method,
                            r.start_flow, r.start_used ? "taken" : "declined: " + r.start_note);
    }
    if (!r.agrees()) {
        text += fmt::format(
            "the solver's objective, {:.4f}, is not the maximum flow of its placement, {:.4f}\n",
            r.objective, r.max_flow);
    } else if (r.found()) {
        text += fmt::format("check: the placement's maximum flow is {:.2f}, as the solver says\n",
                            r.max_flow);
    }
    return text;
}

}  // namespace helix::plan
