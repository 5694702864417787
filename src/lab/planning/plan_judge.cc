#include "lab/planning/plan_judge.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/machine.h"
#include "lab/simulation/simulation_setup.h"
#include "sim/load/load.h"
#include "sim/load/synthetic_trace.h"
#include "sim/published/reference_setup.h"
#include "sim/published/reference_world.h"
#include "sim/throughput/helix_run.h"

namespace helix::lab {
namespace {

// Of our own policy, which plans are served with, in the mean that they are ranked by.
constexpr double kOwnWeight = 0.6;

// Of one user: so many requests, each after so many times as an answer of mean length takes.
constexpr double kAloneRequests = 40;
constexpr double kGapAnswers = 8;

// What is simulated for a look, and what a prompt's token counts beside a decoded one. While memory
// still fills, layouts that fill it faster and further serve more in the end: on 11 layouts of
// single24 the rank correlation of so short a glance with 600 s is 0.68 by decoded tokens alone and
// 0.91 by all, and that of a full look 0.98 and 0.99.
struct Window {
    double warmup_s = 0;
    double duration_s = 0;
    double prompt_weight = 0;
};
Window window_of(plan::Look look) {
    switch (look) {
        case plan::Look::glance:
            return {0, 30, 1};
        case plan::Look::none:
        case plan::Look::full:
            return {60, 120, 0.15};
        case plan::Look::last:
            return {60, 360, 0};
    }
    return {};
}

base::Result<sim::LengthSource> judged_lengths(const PlanSettings& settings) {
    if (!settings.lengths.empty())
        return sim::LengthSource::read(settings.lengths, sim::LengthOrder::sampled);
    return sim::conversation_lengths();
}

bool batches(const PlanSettings& settings, plan::Batching batching) {
    const std::vector<plan::Batching>& all = settings.options.batchings;
    return std::find(all.begin(), all.end(), batching) != all.end();
}

// What one plan of a problem is judged by.
struct SimulatedPlan {
    const Problem& problem;
    const sim::LengthSource& lengths;
    const spec::Placement& placement;
    const std::vector<spec::LinkFlow>& flows;
    const spec::ServingPolicy& policy;
    Window window;
};

struct Served {
    double decode_tokens_per_s = 0;
    double counted_tokens_per_s = 0;
};

Served served(const sim::SimReport& report, const Window& window) {
    const double decode = report.decode_tokens_per_s;
    return {decode, decode + window.prompt_weight * report.prompt_tokens_per_s};
}

// Zeros where it cannot run.
Served served_by_published(const SimulatedPlan& plan) {
    std::vector<std::pair<std::int32_t, std::int32_t>> links;
    for (const spec::LinkFlow& flow : plan.flows) links.emplace_back(flow.from, flow.to);
    auto setup = sim::reference_setup(plan.problem.cluster, *plan.problem.tables, plan.placement,
                                      links, plan.flows);
    if (!setup.ok()) return {};
    setup->lengths = plan.lengths;
    setup->warmup_s = plan.window.warmup_s;
    setup->duration_s = plan.window.duration_s;
    const auto report = sim::run_reference(*setup);
    return report.ok() ? served(*report, plan.window) : Served{};
}

// The same under our own policy, which any cost model will do for. Nothing: it was stopped.
std::optional<Served> served_by_own(const SimulatedPlan& plan, const std::function<bool()>& stop) {
    sim::HelixSetup setup = helix_setup(plan.problem, plan.placement, plan.flows, plan.policy);
    setup.lengths = plan.lengths;
    setup.warmup_s = plan.window.warmup_s;
    setup.duration_s = plan.window.duration_s;
    setup.stop = stop;
    const auto report = sim::run_helix(setup);
    if (report.ok()) return served(*report, plan.window);
    if (stop && stop()) return std::nullopt;
    return Served{};
}

}  // namespace

bool judges_own_policy(const PlanSettings& settings, const Problem& problem) {
    const bool published = problem.tables && batches(settings, plan::Batching::reference);
    return settings.judge && (!published || batches(settings, plan::Batching::helix));
}

base::Result<plan::Judge> simulation_judge(const PlanSettings& settings, const Problem& problem,
                                           std::function<bool()> stop) {
    if (!settings.judge) return plan::Judge{};
    TRY(sim::LengthSource lengths, judged_lengths(settings));
    const auto shared = std::make_shared<const sim::LengthSource>(std::move(lengths));
    const bool published = problem.tables && batches(settings, plan::Batching::reference);
    const bool own = judges_own_policy(settings, problem);
    return plan::Judge([shared, &problem, published, own, stop = std::move(stop)](
                           const spec::Placement& placement,
                           const std::vector<spec::LinkFlow>& flows,
                           const spec::ServingPolicy& policy, plan::Look look) {
        const SimulatedPlan plan{problem, *shared, placement, flows, policy, window_of(look)};
        std::optional<Served> under_own = Served{};
        if (own) under_own = served_by_own(plan, stop);
        if (!under_own) return plan::Judgement{};
        const Served under_published = published ? served_by_published(plan) : *under_own;
        if (!own) {
            return plan::Judgement{under_published.decode_tokens_per_s,
                                   under_published.counted_tokens_per_s, look};
        }
        return plan::Judgement{under_own->decode_tokens_per_s,
                               std::pow(under_own->counted_tokens_per_s, kOwnWeight) *
                                   std::pow(under_published.counted_tokens_per_s, 1 - kOwnWeight),
                               look};
    });
}

base::Result<std::optional<plan::PlanReport::Alone>> simulate_alone(
    const PlanSettings& settings, const Problem& problem, const plan::LengthMoments& lengths,
    const plan::PlanReport& report) {
    if (!settings.judge) return std::optional<plan::PlanReport::Alone>();
    TRY(sim::LengthSource drawn, judged_lengths(settings));
    return simulate_alone(problem, std::move(drawn), lengths, report);
}

base::Result<std::optional<plan::PlanReport::Alone>> simulate_alone(
    const Problem& problem, sim::LengthSource lengths, const plan::LengthMoments& moments,
    const plan::PlanReport& report) {
    const std::optional<plan::PlanReport::Alone> nothing;
    if (!report.prediction || report.prediction->alone_tpot_s <= 0) return nothing;
    const double answer_s =
        report.prediction->alone_ttft_s + moments.output * report.prediction->alone_tpot_s;
    const double gap_s = kGapAnswers * answer_s;
    sim::HelixSetup setup = helix_setup(problem, report.placement, report.flows, report.policy);
    setup.lengths = std::move(lengths);
    setup.overheads.lone_decode_doubles = false;  // in the published simulator, not in an engine
    setup.online.emplace();
    setup.online->process = sim::ArrivalProcess::gamma;
    setup.online->burstiness = 0;  // one after another at even times
    setup.online->tokens_per_s = (moments.prompt + moments.output) / gap_s;
    setup.warmup_s = 0;
    setup.duration_s = kAloneRequests * gap_s;
    setup.until_done = true;
    const auto run = sim::run_helix(setup);
    if (!run.ok() || run->ttft.count == 0 || run->tpot.count == 0) return nothing;
    return std::optional(plan::PlanReport::Alone{run->ttft.mean, run->tpot.mean,
                                                 static_cast<std::int64_t>(run->ttft.count)});
}

plan::Executor threads_executor(int threads) {
    if (threads <= 0) threads = base::usable_threads();
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

}  // namespace helix::lab
