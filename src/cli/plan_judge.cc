#include "cli/plan_judge.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "cli/simulate_setup.h"
#include "sim/helix_world.h"
#include "sim/load.h"
#include "sim/reference_setup.h"
#include "sim/reference_world.h"
#include "sim/synthetic_trace.h"

namespace helix::cli {
namespace {

constexpr double kWarmup_s = 60;
// Of the planned split, in the geometric mean that plans are ranked by.
constexpr double kOwnWeight = 0.75;
constexpr double kOwnWindow_s = 120;
constexpr double kWindow_s = 240;  // differences below 3 % are noise in 600 s, too

base::Result<sim::LengthSource> judged_lengths(const PlanArguments& a) {
    if (!a.lengths.empty()) return sim::LengthSource::read(a.lengths, sim::LengthOrder::sampled);
    return sim::conversation_lengths();
}

// Decode tokens/s; 0 where it cannot run.
double simulate(const Problem& problem, const sim::LengthSource& lengths,
                const spec::Placement& placement, const std::vector<spec::LinkFlow>& flows) {
    std::vector<std::pair<std::int32_t, std::int32_t>> links;
    for (const spec::LinkFlow& flow : flows) links.emplace_back(flow.from, flow.to);
    auto setup = sim::reference_setup(problem.cluster, *problem.tables, placement, links, flows);
    if (!setup.ok()) return 0;
    setup->lengths = lengths;
    setup->warmup_s = kWarmup_s;
    setup->duration_s = kWindow_s;
    const auto report = sim::run_reference(*setup);
    return report.ok() ? report->decode_tokens_per_s : 0;
}

// The same under our own policy, which any cost model will do for.
double simulate_own(const Problem& problem, const sim::LengthSource& lengths,
                    const spec::Placement& placement, const std::vector<spec::LinkFlow>& flows) {
    sim::HelixSetup setup = helix_setup(problem, placement, flows);
    setup.lengths = lengths;
    setup.warmup_s = kWarmup_s;
    setup.duration_s = kOwnWindow_s;
    const auto report = sim::run_helix(setup);
    return report.ok() ? report->decode_tokens_per_s : 0;
}

}  // namespace

base::Result<plan::Judge> simulation_judge(const PlanArguments& a, const Problem& problem,
                                           const plan::FlowOptions& flow) {
    if (a.judge != "simulate" && a.judge != "none") {
        return base::invalid("--judge: '" + a.judge + "' is neither simulate nor none");
    }
    if (a.judge == "none") return plan::Judge{};
    TRY(sim::LengthSource lengths, judged_lengths(a));
    if (!problem.tables) {
        const auto source = std::make_shared<const sim::LengthSource>(std::move(lengths));
        return plan::Judge([source, &problem](const spec::Placement& placement,
                                              const std::vector<spec::LinkFlow>& flows) {
            const double rate = simulate_own(problem, *source, placement, flows);
            return plan::Judgement{rate, rate};
        });
    }
    const auto shared = std::make_shared<const sim::LengthSource>(std::move(lengths));
    // Ranked by how it runs with the split of requests that the planner chose, and a little by how
    // with a maximum flow's: that is what a scheduler makes of it that knows only the layers.
    return plan::Judge([shared, &problem, flow](const spec::Placement& placement,
                                                const std::vector<spec::LinkFlow>& flows) {
        plan::Judgement seen;
        seen.decode_tokens_per_s = simulate(problem, *shared, placement, flows);
        const plan::FlowGraph graph = plan::build_flow_graph(problem.cluster, problem.model,
                                                             problem.capacities, placement, flow);
        const double other =
            simulate(problem, *shared, placement, plan::plan_flow(problem.cluster, graph).links);
        seen.merit =
            std::pow(seen.decode_tokens_per_s, kOwnWeight) * std::pow(other, 1 - kOwnWeight);
        return seen;
    });
}

plan::Executor threads_executor(int threads) {
    if (threads <= 0) threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    return [threads](int n, const std::function<void(int)>& task) {
        std::atomic<int> next{0};
        const auto work = [&] {
            for (int i = next++; i < n; i = next++) task(i);
        };
        std::vector<std::thread> others;
        for (int t = 1; t < std::min(threads, n); ++t) others.emplace_back(work);
        work();
        for (std::thread& thread : others) thread.join();
    };
}

}  // namespace helix::cli
