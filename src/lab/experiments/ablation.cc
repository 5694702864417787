#include <fmt/format.h>

#include <iterator>

#include "lab/experiments/experiments.h"
#include "lab/experiments/published.h"
#include "plan/milp/milp.h"
#include "plan/milp/milp_program.h"
#include "plan/milp/prune.h"

// The paper's ablations (6.8): pruned links, initial values, and how good the planner's answers
// are.

namespace helix::lab {
namespace {

constexpr const char* kNoPrune24 = "ablation_no_prune_24";

ExperimentCase with_max_flow(const char* cluster, const char* method) {
    return {.cluster = cluster,
            .model = k70b,
            .method = method,
            .scheduler = sim::ReferenceScheduler::max_flow};
}

struct PruningRow {
    const char* cluster;
    const char* what;
    ExperimentCase wanted;
    double published_flow;
    double published;
};

std::vector<PruningRow> pruning_rows(const ExperimentSession& session) {
    std::vector<PruningRow> rows;
    rows.push_back({"distributed24", "pruned to 12 links", with_max_flow("distributed24", "helix"),
                    1212.2, 98.0});
    if (session.data().layout_file(kNoPrune24)) {
        ExperimentCase c = with_max_flow("distributed24", "helix");
        c.layout = kNoPrune24;
        rows.push_back({"distributed24", "all links", c, 952.1, 74.9});
    }
    rows.push_back(
        {"highhet42", "pruned to 12 links", with_max_flow("highhet42", "helix"), 4137.5, 645.6});
    if (session.data().layout_file("highhet42", k70b, "swarm")) {
        ExperimentCase c = with_max_flow("highhet42", "swarm");
        c.all_links = true;
        rows.push_back(
            {"highhet42", "all links (the solver kept Swarm's layout)", c, 4892.2, 574.2});
    }
    return rows;
}

void write_pruning(const ExperimentSession& session, ExperimentPage& page) {
    ExperimentTable table;
    table.title = "Links pruned before the solver runs, LLaMA 70B";
    table.head = {"cluster", "links", "published flow",  "published tok/s",
                  "flow",    "ours",  "ours / published"};
    bool planned = false;
    for (const PruningRow& row : pruning_rows(session)) {
        const ExperimentResult& result = session.result(row.wanted);
        if (!result.error.empty()) {
            page.text(fmt::format("{}, {}: {}.", row.cluster, row.what, result.error));
            continue;
        }
        planned = planned || result.planned;
        const double rate = result.report.decode_tokens_per_s;
        table.rows.push_back({row.cluster, row.what + stand_in(result.planned),
                              cell(row.published_flow, 1), cell(row.published, 1),
                              cell(result.report.max_flow_tokens_per_s, 1), cell(rate, 2),
                              ratio_cell(rate, row.published)});
    }
    page.table(std::move(table));
    if (planned) page.text(kPlannedNote);
}

// The three clusters of the solver's runs, and what a machine keeps of its links where they are
// pruned.
struct SolverCluster {
    const char* cluster;
    const char* model;
    const char* machines;
    int kept_links;
};
constexpr SolverCluster kSolverClusters[] = {
    {"ablation10", "llama1-30b", "10 (4 L4, 6 T4), LLaMA 30B", 4},
    {"distributed24", k70b, "24 in three regions, LLaMA 70B", 12},
    {"highhet42", k70b, "42 of seven types, LLaMA 70B", 12}};

constexpr double kIdle_s = 20;

struct SolverRow {
    ExperimentSession::PaperProgram program;  // prune: 1 stands for the cluster's kept_links
    std::string published[3];                 // by cluster
};

const std::vector<SolverRow>& solver_rows() {
    static const std::vector<SolverRow> rows = {
        {{.start = true}, {"286.59, proven, 3803 s", "952.1, 2901 s", "4892.2, the start, 4382 s"}},
        {{.start = false}, {}},
        {{.prune = 1, .start = true}, {"", "1212.2, 2700 s", "4137.5, 3003 s"}},
        {{.prune = 1, .start = false}, {"", "1212.2, 8240 s", "4137.5, 3035 s"}},
        {{.partial = true, .prune = 1, .start = true}, {}},
        {{.prune = 1, .start = true, .stop_after_idle_s = kIdle_s}, {}}};
    return rows;
}

std::string links_cell(int prune) {
    return prune > 0 ? fmt::format("{} a machine", prune) : "all";
}

std::string found_cell(const plan::MilpReport& report) {
    if (!report.found()) return "nothing";
    if (!report.improved()) return "nothing better than the start";
    return fmt::format("{:.2f}{}{}", report.objective, report.proven() ? ", proven" : "",
                       report.agrees() ? "" : fmt::format(" (its flow: {:.2f})", report.max_flow));
}

std::string start_cell(const plan::MilpReport& report) {
    if (!report.start_given) return "none";
    if (!report.start_used) return "declined: " + report.start_note;
    return fmt::format("{:.2f} ({})", report.start_flow, report.start_method);
}

// The best that our own planner finds, of any depth: no solver's result.
base::Status add_search_row(ExperimentSession& session, const SolverCluster& where,
                            ExperimentTable& table) {
    TRY(const auto* const planned,
        session.plan(where.cluster, where.model, "search", ExperimentPolicy::published));
    const plan::PlanReport& report = planned->report;
    table.rows.push_back({where.machines, "our search, no solver", "no", "-", "-", "-",
                          fmt::format("{:.2f}{}", report.max_flow_tokens_per_s,
                                      report.proven_optimal ? ", proven" : ""),
                          cell(report.upper_bound_tokens_per_s, 2), "-",
                          fmt::format("{:.1f} s", planned->seconds), "-"});
    return base::Ok{};
}

base::Status write_solver(ExperimentSession& session, ExperimentPage& page) {
    ExperimentTable table;
    table.title = "What the solver itself finds (CBC, one thread)";
    table.head = {"machines",
                  "links",
                  "partial",
                  "start tok/s",
                  "variables",
                  "constraints",
                  "found tok/s",
                  "bound",
                  "best after",
                  "ended",
                  "published (Gurobi, 20 threads)"};
    for (std::size_t c = 0; c < std::size(kSolverClusters); ++c) {
        const SolverCluster& where = kSolverClusters[c];
        for (const SolverRow& row : solver_rows()) {
            ExperimentSession::PaperProgram program = row.program;
            if (program.prune > 0) program.prune = where.kept_links;
            TRY(const plan::MilpReport report, session.solve(where.cluster, where.model, program));
            table.rows.push_back(
                {where.machines, links_cell(program.prune), program.partial ? "yes" : "no",
                 start_cell(report), std::to_string(report.columns), std::to_string(report.rows),
                 found_cell(report), cell(report.bound, 2),
                 report.improved() ? fmt::format("{:.1f} s", report.best_after_s()) : "-",
                 fmt::format("{}, {:.1f} s",
                             report.proven() ? "proven" : to_string(report.stop_reason),
                             report.seconds),
                 row.published[c].empty() ? "-" : row.published[c]});
        }
        TRY_VOID(add_search_row(session, where, table));
    }
    page.table(std::move(table));
    page.text(fmt::format(
        "Each row is one run of the paper's program, every machine holding at least a layer, and "
        "shows "
        "what the solver found and nothing else. Time limit: {:g} s of the clock a run; the last "
        "of each cluster's solver rows also stops after {:g} s without a better solution "
        "(`helix plan --method milp --stop-after-idle`). Pruning keeps the links that the start "
        "needs beside the {} or {} of each machine, so that the start is never cut off. Partial: a "
        "machine may run some of its layers for a token that comes with others done.",
        session.options().solver_budget_s, kIdle_s, kSolverClusters[0].kept_links,
        kSolverClusters[1].kept_links));
    return base::Ok{};
}

struct ProgramSize {
    std::size_t variables = 0;
    std::size_t constraints = 0;
};

ProgramSize program_size(const Problem& problem, int prune, bool partial) {
    std::vector<std::pair<std::int32_t, std::int32_t>> links;
    if (prune > 0) {
        links = plan::prune_links(problem.cluster, {.min_keep = prune, .max_keep = prune});
    } else {
        for (const spec::LinkSpec& link : problem.cluster.links)
            links.emplace_back(link.from, link.to);
    }
    const plan::MilpProgram milp({problem.cluster, problem.model, problem.capacities}, links,
                                 {.partial = partial});
    return {milp.program().columns.size(), milp.program().rows.size()};
}

// The paper's Table 4.
base::Status write_sizes(ExperimentSession& session, ExperimentPage& page) {
    ExperimentTable table;
    table.title = "Size of the program, without a start";
    table.head = {"machines",
                  "links",
                  "partial",
                  "variables",
                  "constraints",
                  "published variables",
                  "published constraints"};
    // By cluster: all links, then pruned, of programs without partial inference.
    constexpr const char* kPublished[3][2][2] = {{{"316", "350"}, {"-", "-"}},
                                                 {{"1376", "1848"}, {"876", "1122"}},
                                                 {{"4004", "5502"}, {"2144", "2772"}}};
    for (std::size_t c = 0; c < std::size(kSolverClusters); ++c) {
        const SolverCluster& where = kSolverClusters[c];
        TRY(const Problem* const problem, session.problem(where.cluster, where.model));
        for (const bool partial : {false, true}) {
            for (const int prune : {0, where.kept_links}) {
                const ProgramSize size = program_size(*problem, prune, partial);
                const auto& published = kPublished[c][prune > 0 ? 1 : 0];
                table.rows.push_back({where.machines, links_cell(prune), partial ? "yes" : "no",
                                      std::to_string(size.variables),
                                      std::to_string(size.constraints),
                                      partial ? "-" : published[0], partial ? "-" : published[1]});
            }
        }
    }
    page.table(std::move(table));
    return base::Ok{};
}

}  // namespace

Experiment ablation_experiment() {
    return {"ablation", "Ablations of the planner",
            [](ExperimentSession& session, int round) -> base::Status {
                if (round > 0) return base::Ok{};
                for (const PruningRow& row : pruning_rows(session)) session.want(row.wanted);
                return base::Ok{};
            },
            [](ExperimentSession& session, ExperimentPage& page) -> base::Status {
                write_pruning(session, page);
                TRY_VOID(write_sizes(session, page));
                return write_solver(session, page);
            }};
}

}  // namespace helix::lab
