// The paper's MILP on the first machines of the ten-machine study, with each speed-up on its own:
// size, time to the best solution, time to the proof, in CPU seconds; then on the published
// clusters.
//     milp_bench [SECONDS [MACHINES [SOLVER]]]     limit of each run, 20; up to so many, 6; "cbc"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <string>

#include "plan/bounds/bounds.h"
#include "plan/milp/milp.h"
#include "plan/rules/heuristics.h"
#include "spec/cluster_file.h"
#include "spec/profile_tables.h"

namespace {

using namespace helix;

double cpu_s() {
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

struct Problem {
    spec::ClusterSpec cluster;
    spec::ModelSpec model;
    plan::CapacityTable capacities;
};

base::Result<Problem> load(const std::string& cluster, const std::string& model,
                           const std::string& mix) {
    const std::string data = HELIX_DATA_DIR;
    Problem problem;
    TRY(problem.cluster, spec::read_cluster_file(data + "/clusters/" + cluster + ".json"));
    TRY(const auto tables, spec::ProfileTables::read(data + "/profiles", model));
    TRY(const auto throughput, spec::read_node_throughput(data + "/profiles", model, mix));
    TRY(problem.capacities, plan::capacity_from_tables(problem.cluster, tables, throughput));
    problem.model = tables.model();
    return problem;
}

// The problem of the first m machines and 6 m layers.
base::Result<Problem> part_of_ablation(std::int32_t m) {
    TRY(Problem part, load("ablation10", "llama1-30b", "ablation10"));
    part.model.n_layers = 6 * m;
    part.cluster.nodes.resize(static_cast<std::size_t>(m));
    part.capacities.nodes.resize(static_cast<std::size_t>(m));
    std::erase_if(part.cluster.links,
                  [m](const spec::LinkSpec& link) { return link.from >= m || link.to >= m; });
    return part;
}

struct Variant {
    const char* name;
    bool start;
    bool cap;
    bool prune;
    bool early;
    bool partial;
    bool tight = false;
};
constexpr Variant kVariants[] = {{"plain", false, false, false, false, false},
                                 {"+ capped links", false, true, false, false, false},
                                 {"+ start", true, true, false, false, false},
                                 {"+ early stop", true, true, false, true, false},
                                 {"+ pruning to 3", true, true, true, true, false},
                                 {"partial, capped, start", true, true, false, false, true},
                                 {"bound and order rows", false, true, false, false, false, true},
                                 {"+ start", true, true, false, false, false, true},
                                 {"partial, the same", true, true, false, false, true, true}};
constexpr Variant kPublished[] = {
    {"start", true, false, false, false, false},
    {"start, pruning", true, false, true, false, false},
    {"start, capped, tighter", true, true, false, false, false, true}};

base::Status bench(const std::string& label, const Problem& problem, const Variant& variant,
                   const std::optional<spec::Placement>& start, plan::PruneOptions prune,
                   double limit_s, const std::string& solver) {
    plan::MilpOptions options;
    options.solver = solver;
    options.formulation.partial = variant.partial;
    options.formulation.cap_links = variant.cap;
    if (variant.tight) {
        options.formulation.flow_bound =
            plan::flow_bounds({problem.cluster, problem.model, problem.capacities}).best;
        options.formulation.order_equals = true;
    }
    if (variant.prune) options.prune = prune;
    if (variant.start) options.start = start;
    if (!variant.early) options.stop.near_bound = options.stop.good_enough = 0;
    options.stop.no_gain_s = limit_s / 10;
    options.stop.time_limit_s = limit_s;
    options.stop.now_s = cpu_s;
    TRY(const plan::MilpReport report,
        plan::milp_placement({problem.cluster, problem.model, problem.capacities}, options));
    const double found =
        report.incumbents.empty() ? report.seconds : report.incumbents.back().seconds;
    std::string end = report.proven() ? "proven" : to_string(report.stop_reason);
    if (!report.start_note.empty()) end += "; " + report.start_note;
    if (options.start && report.start_flow <= 0) end += "; pruning cut the start off";
    std::printf("%-13s  %-23s %5lld x %5lld  %9.3f  %10.3f  %7.2f s %7.2f s %7lld  %s\n",
                label.c_str(), variant.name, static_cast<long long>(report.rows),
                static_cast<long long>(report.columns), report.max_flow, report.bound, found,
                report.seconds, static_cast<long long>(report.nodes), end.c_str());
    std::fflush(stdout);
    return base::Ok{};
}

base::Status bench_parts(std::int32_t most, double limit_s, const std::string& solver) {
    for (std::int32_t m = 3; m <= most; ++m) {
        TRY(const Problem part, part_of_ablation(m));
        const auto start = plan::even_placement(part.capacities, part.model.n_layers);
        for (const Variant& variant : kVariants) {
            TRY_VOID(bench(std::to_string(m) + " machines", part, variant, start,
                           {.min_keep = 3, .max_keep = 3}, limit_s, solver));
        }
    }
    return base::Ok{};
}

// The published clusters from the Swarm start, with the published pruning and without.
base::Status bench_published(double limit_s, const std::string& solver) {
    const struct {
        const char* cluster;
        const char* mix;
    } cases[] = {
        {"single24", "single24"}, {"distributed24", "single24"}, {"highhet42", "highhet42"}};
    for (const auto& [cluster, mix] : cases) {
        TRY(const Problem problem, load(cluster, "llama2-70b", mix));
        const auto start = plan::swarm_placement(problem.capacities, problem.model.n_layers, 0);
        for (const Variant& variant : kPublished)
            TRY_VOID(bench(cluster, problem, variant, start, {}, limit_s, solver));
    }
    return base::Ok{};
}

}  // namespace

int main(int argc, char** argv) {
    const double limit_s = argc > 1 ? std::atof(argv[1]) : 20;
    const int most = argc > 2 ? std::atoi(argv[2]) : 6;
    const std::string solver = argc > 3 ? argv[3] : "cbc";
    std::printf("%-13s  %-23s %13s  %9s  %10s  %9s %9s %7s  %s\n", "problem", "with", "rows x cols",
                "flow", "bound", "to best", "in all", "nodes", "end");
    auto status = bench_parts(most, limit_s, solver);
    if (status.ok()) status = bench_published(limit_s, solver);
    if (status.ok()) return 0;
    std::fprintf(stderr, "milp_bench: %s\n", status.error().message.c_str());
    return 1;
}
