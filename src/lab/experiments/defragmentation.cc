// Llumnix' third claim: a long prompt that no machine has room for, though there is room in all,
// gets in sooner when others move out of its way.

#include <fmt/format.h>

#include <array>

#include "lab/experiments/live_grid.h"

namespace helix::lab {
namespace {

constexpr double kRareDurationS = 400;  // long prompts are rare
constexpr double kShortPerS = 22;
constexpr double kLongPerS = 0.1;
constexpr std::int32_t kLongPrompt = 12'000;
constexpr std::int32_t kLongOutput = 100;

struct System {
    const char* name;
    bool moves;
    std::int32_t room_moves;
};
constexpr std::array<System, 4> kSystems = {{{"no moves", false, 0},
                                             {"moves for balance", true, 0},
                                             {"and for room, up to 4", true, 4},
                                             {"and for room, up to 16", true, 16}}};

// The first in the queue has no room at any machine, though all together have enough for it.
bool fragmented(const LiveSample& sample, double total) {
    return sample.waiting > 0 && sample.head > sample.freest && sample.head <= sample.free * total;
}

double fragmented_share(const LiveResult& result, double total) {
    double n = 0;
    for (const LiveSample& sample : result.samples) n += fragmented(sample, total) ? 1 : 0;
    return result.samples.empty() ? 0 : n / static_cast<double>(result.samples.size());
}

// Of memory that is free and of no use to the first in the queue, over time.
std::vector<std::pair<double, double>> useless_over_time(const LiveResult& result, double total) {
    constexpr std::size_t kEvery = 5;
    std::vector<std::pair<double, double>> points;
    double sum = 0;
    for (std::size_t i = 0; i < result.samples.size(); ++i) {
        const LiveSample& sample = result.samples[i];
        sum += fragmented(sample, total) ? sample.free * 100 / static_cast<double>(kEvery) : 0;
        if ((i + 1) % kEvery != 0) continue;
        points.emplace_back(sample.at_s, sum);
        sum = 0;
    }
    return points;
}

}  // namespace

base::Status write_defragmentation(const ExperimentOptions& options, ExperimentPage& page) {
    TRY(const LiveCluster cluster, live_cluster(kLiveMachines, "A10", "llama2-7b", 400));
    const sim::LengthSource short_ones = power_law_lengths({256, 6144}, {256, 6144});
    const sim::LengthSource long_ones({{kLongPrompt, kLongOutput}}, sim::LengthOrder::recorded);
    LiveGrid grid;
    for (const System& system : kSystems) {
        grid.add(system.name, [&](std::uint64_t seed) {
            LiveCase c;
            c.cluster = &cluster;
            c.warmup_s = kLiveWarmupS * options.time_share;
            c.duration_s = kRareDurationS * options.time_share;
            c.balance.enabled = system.moves;
            c.balance.room_moves = system.room_moves;
            const double end_s = c.warmup_s + c.duration_s;
            c.arrivals = together(
                live_arrivals(short_ones,
                              {.requests_per_s = kShortPerS, .end_s = end_s, .seed = seed}),
                live_arrivals(long_ones,
                              {.requests_per_s = kLongPerS, .end_s = end_s, .seed = seed + 1000}));
            c.seed = seed;
            return c;
        });
    }
    TRY_VOID(grid.run(options));
    const double total = cluster.kv_tokens * kLiveMachines;
    ExperimentTable table;
    table.title = "A long prompt behind scattered room";
    table.head = {"system",
                  "TTFT of long ones, s (mean / p50 / p99)",
                  "P99 (spread)",
                  "TTFT of all, s (mean / p50 / p99)",
                  "time blocked by scatter, %",
                  "preemptions / 1000",
                  "moves"};
    view::LineChart chart{
        "Free memory that the first in the queue cannot use (seed 1)", "s", "% of all memory", {}};
    view::BarChart bars{"Mean time to the first token", "s", {"long prompts", "all"}, {}};
    for (const System& system : kSystems) {
        const std::vector<LiveResult>& runs = grid.at(system.name);
        const auto count = [&](std::uint64_t sim::SimReport::*part) {
            return fmt::format("{:.0f}", mean_of(runs, [&](const LiveResult& r) {
                                   return static_cast<double>(r.report.*part);
                               }));
        };
        using Stats = sim::LatencyStats;
        table.rows.push_back(
            {system.name,
             live_latency_cell(runs, 1,
                               [](const LiveResult& r) -> const Stats& { return r.longest.ttft; }),
             spread_cell(runs, 1, [](const LiveResult& r) { return p99_ttft(r.longest); }),
             live_latency_cell(runs, 2,
                               [](const LiveResult& r) -> const Stats& { return r.all.ttft; }),
             spread_cell(runs, 1,
                         [&](const LiveResult& r) { return 100 * fragmented_share(r, total); }),
             spread_cell(runs, 1, preemptions_per_1000), count(&sim::SimReport::migrated)});
        bars.series.push_back(
            {system.name,
             {mean_of(runs, [](const LiveResult& r) { return mean_ttft(r.longest); }),
              mean_of(runs, [](const LiveResult& r) { return mean_ttft(r.all); })}});
        if (system.room_moves == 0 || system.room_moves == 4) {
            chart.series.push_back({system.name, useless_over_time(runs.front(), total)});
        }
    }
    page.text(live_bed_text(cluster));
    page.text(fmt::format(
        "{:g} requests/s (power law, mean 256 tokens in and out) and among them one in {:.0f} s "
        "with a prompt of {} tokens, more than half a machine's "
        "memory (a context of 16k, as CodeLlama 7B of the same shape has). Blocked by scatter: the "
        "first in the queue finds no machine "
        "with room for its prompt while all together have it. {} seeds, {:.0f} s after {:.0f} s.",
        kShortPerS, 1 / kLongPerS, kLongPrompt, kLiveSeeds, kRareDurationS * options.time_share,
        kLiveWarmupS * options.time_share));
    page.table(std::move(table));
    page.bars("defragmentation", bars);
    page.lines("scatter", chart);
    return base::Ok{};
}

}  // namespace helix::lab
