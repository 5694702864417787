#include <fmt/format.h>

#include "cli/experiment_page.h"

// The paper's ablations (6.8): pruned links, initial values, and how good the planner's answers
// are.

namespace helix::cli {
namespace {

constexpr const char* k70b = "llama2-70b";
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
        table.rows.push_back({row.cluster, row.what + std::string(result.planned ? " \\*" : ""),
                              cell(row.published_flow, 1), cell(row.published, 1),
                              cell(result.report.max_flow_tokens_per_s, 1), cell(rate, 2),
                              ratio_cell(rate, row.published)});
    }
    page.table(std::move(table));
    if (planned) page.text(kPlannedNote);
}

base::Status write_solver(ExperimentSession& session, ExperimentPage& page) {
    struct Row {
        const char* method;
        const char* what;
    };
    constexpr Row kRows[] = {
        {"helix", "block packing and search"},
        {"milp", "the paper's program (CBC), from the best rule's plan"},
        {"milp-no-start", "without initial values"},
        {"milp-pruned", "pruned to 4 links of each machine"},
    };
    ExperimentTable table;
    table.title = "Ten machines (4 L4, 6 T4), LLaMA 30B: initial values, pruning, and the optimum";
    table.head = {"how", "max flow tok/s", "bound", "proven", "seconds"};
    table.rows.push_back({"published (Gurobi, 20 threads)", "286.59", "286.59", "yes", "3803"});
    for (const Row& row : kRows) {
        const auto planned = session.plan("ablation10", "llama1-30b", row.method);
        if (!planned.ok()) {
            page.text(fmt::format("{}: {}.", row.what, planned.error().message));
            continue;
        }
        const plan::PlanReport& report = (*planned)->report;
        table.rows.push_back({row.what, cell(report.max_flow_tokens_per_s, 2),
                              cell(report.upper_bound_tokens_per_s, 2),
                              report.proven_optimal ? "yes" : "no",
                              fmt::format("{:.1f}", (*planned)->seconds)});
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
                for (const char* method : {"helix", "milp", "milp-no-start", "milp-pruned"}) {
                    // A method that finds nothing is shown with its reason.
                    static_cast<void>(session.plan("ablation10", "llama1-30b", method));
                }
                return base::Ok{};
            },
            [](ExperimentSession& session, ExperimentPage& page) -> base::Status {
                write_pruning(session, page);
                return write_solver(session, page);
            }};
}

}  // namespace helix::cli
