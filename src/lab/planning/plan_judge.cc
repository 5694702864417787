#include "lab/planning/plan_judge.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <thread>
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

constexpr double kJudgeWarmup_s = 60;
// Of our own policy, which plans are served with, in the mean that they are ranked by.
constexpr double kOwnWeight = 0.6;
constexpr double kOwnWindow_s = 120;
// Of one user: so many requests, each after so many times as an answer of mean length takes.
constexpr double kAloneRequests = 40;
constexpr double kGapAnswers = 8;
constexpr double kJudgeWindow_s = 240;  // differences below 3 % are noise in 600 s, too

base::Result<sim::LengthSource> judged_lengths(const PlanSettings& settings) {
    if (!settings.lengths.empty())
        return sim::LengthSource::read(settings.lengths, sim::LengthOrder::sampled);
    return sim::conversation_lengths();
}

bool batches(const PlanSettings& settings, plan::Batching batching) {
    const std::vector<plan::Batching>& all = settings.options.batchings;
    return std::find(all.begin(), all.end(), batching) != all.end();
}

// Decode tokens/s; 0 where it cannot run.
double judge_published(const Problem& problem, const sim::LengthSource& lengths,
                       const spec::Placement& placement, const std::vector<spec::LinkFlow>& flows) {
    std::vector<std::pair<std::int32_t, std::int32_t>> links;
    for (const spec::LinkFlow& flow : flows) links.emplace_back(flow.from, flow.to);
    auto setup = sim::reference_setup(problem.cluster, *problem.tables, placement, links, flows);
    if (!setup.ok()) return 0;
    setup->lengths = lengths;
    setup->warmup_s = kJudgeWarmup_s;
    setup->duration_s = kJudgeWindow_s;
    const auto report = sim::run_reference(*setup);
    return report.ok() ? report->decode_tokens_per_s : 0;
}

// The same under our own policy, which any cost model will do for.
double judge_own(const Problem& problem, const sim::LengthSource& lengths,
                 const spec::Placement& placement, const std::vector<spec::LinkFlow>& flows) {
    sim::HelixSetup setup = helix_setup(problem, placement, flows);
    setup.lengths = lengths;
    setup.warmup_s = kJudgeWarmup_s;
    setup.duration_s = kOwnWindow_s;
    const auto report = sim::run_helix(setup);
    return report.ok() ? report->decode_tokens_per_s : 0;
}

}  // namespace

base::Result<plan::Judge> simulation_judge(const PlanSettings& settings, const Problem& problem) {
    if (!settings.judge) return plan::Judge{};
    TRY(sim::LengthSource lengths, judged_lengths(settings));
    const auto shared = std::make_shared<const sim::LengthSource>(std::move(lengths));
    const bool published = problem.tables && batches(settings, plan::Batching::reference);
    const bool own = !published || batches(settings, plan::Batching::helix);
    return plan::Judge([shared, &problem, published, own](
                           const spec::Placement& placement,
                           const std::vector<spec::LinkFlow>& flows) {
        const double under_own = own ? judge_own(problem, *shared, placement, flows) : 0;
        const double under_published =
            published ? judge_published(problem, *shared, placement, flows) : under_own;
        if (!own) return plan::Judgement{under_published, under_published};
        return plan::Judgement{
            under_own, std::pow(under_own, kOwnWeight) * std::pow(under_published, 1 - kOwnWeight)};
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
    sim::HelixSetup setup = helix_setup(problem, report.placement, report.flows);
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
