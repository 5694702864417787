// The paper's MILP on the first machines of the ten-machine study, with each speed-up on its own:
// size, time to the best solution, time to the proof.
//     milp_bench [SECONDS [MACHINES [SOLVER]]]     limit of each run, 20; up to so many, 6; "cbc"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include "plan/bounds.h"
#include "plan/heuristics.h"
#include "plan/milp.h"
#include "spec/cluster_file.h"
#include "spec/profile_tables.h"

namespace {

using namespace helix;

double cpu_s() {
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

struct Part {
    spec::ClusterSpec cluster;
    spec::ModelSpec model;
    plan::CapacityTable capacities;
};

// The first m machines, and 6 m layers.
base::Result<Part> part_of_ablation(std::int32_t m) {
    const std::string data = HELIX_DATA_DIR;
    Part part;
    TRY(part.cluster, spec::read_cluster_file(data + "/clusters/ablation10.json"));
    TRY(const auto tables, spec::ProfileTables::read(data + "/profiles", "llama1-30b"));
    TRY(const auto throughput,
        spec::read_node_throughput(data + "/profiles", "llama1-30b", "ablation10"));
    TRY(part.capacities, plan::capacity_from_tables(part.cluster, tables, throughput));
    part.model = tables.model();
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

base::Status bench(std::int32_t m, const Variant& variant, double limit_s,
                   const std::string& solver) {
    TRY(const Part part, part_of_ablation(m));
    plan::MilpOptions options;
    options.solver = solver;
    options.formulation.partial = variant.partial;
    options.formulation.cap_links = variant.cap;
    if (variant.tight) {
        options.formulation.flow_bound =
            plan::flow_bounds(part.cluster, part.model, part.capacities).best;
        options.formulation.order_equals = true;
    }
    if (variant.prune) options.prune = plan::PruneOptions{.min_keep = 3, .max_keep = 3};
    if (variant.start) options.start = plan::even_placement(part.capacities, part.model.n_layers);
    if (!variant.early) options.stop.near_bound = options.stop.good_enough = 0;
    options.stop.no_gain_s = limit_s / 10;
    options.stop.time_limit_s = limit_s;
    options.stop.now_s = cpu_s;
    TRY(const plan::MilpReport report,
        plan::milp_placement(part.cluster, part.model, part.capacities, options));
    const double found =
        report.incumbents.empty() ? report.seconds : report.incumbents.back().seconds;
    std::printf("%2d  %-23s %5lld x %5lld  %9.3f  %10.3f  %7.2f s %7.2f s %7lld  %s%s\n", m,
                variant.name, static_cast<long long>(report.rows),
                static_cast<long long>(report.columns), report.max_flow, report.bound, found,
                report.seconds, static_cast<long long>(report.nodes),
                report.proven() ? "proven" : to_string(report.stop_reason),
                options.start && !report.start_used ? ", start not taken" : "");
    return base::Ok{};
}

}  // namespace

int main(int argc, char** argv) {
    const double limit_s = argc > 1 ? std::atof(argv[1]) : 20;
    const int most = argc > 2 ? std::atoi(argv[2]) : 6;
    const std::string solver = argc > 3 ? argv[3] : "cbc";
    std::printf("%2s  %-23s %13s  %9s  %10s  %9s %9s %7s  %s\n", "m", "with", "rows x cols", "flow",
                "bound", "to best", "in all", "nodes", "end");
    for (int m = 3; m <= most; ++m) {
        for (const Variant& variant : kVariants) {
            const auto status = bench(m, variant, limit_s, solver);
            if (status.ok()) continue;
            std::fprintf(stderr, "milp_bench: %s\n", status.error().message.c_str());
            return 1;
        }
    }
    return 0;
}
