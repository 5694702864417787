// Llumnix' second claim: requests of high priority are as fast when the load of the others doubles.

#include <fmt/format.h>

#include <array>

#include "lab/experiments/live_grid.h"

namespace helix::lab {
namespace {

constexpr double kHighPerS = 1.5;
constexpr std::array<double, 2> kBackground = {14, 28};  // requests/s

struct PrioritySystem {
    const char* name;
    bool priorities;
    double headroom;
};
constexpr std::array<PrioritySystem, 3> kPrioritySystems = {
    {{"all alike", false, 0}, {"priority in the queue", true, 0}, {"and headroom", true, 0.1}}};

std::string row_of(double background, const PrioritySystem& system) {
    return fmt::format("{:g}/s {}", background, system.name);
}

const LiveLatencies& high_of(const LiveResult& result) {
    return result.by_priority[1];
}

void add_row(double background, const PrioritySystem& system, std::size_t kind,
             const LiveGrid& grid, ExperimentTable& table) {
    const std::vector<LiveResult>& runs = grid.at(row_of(background, system));
    using Stats = sim::LatencyStats;
    const auto of = [&](Stats LiveLatencies::*part) {
        return
            [part, kind](const LiveResult& r) -> const Stats& { return r.by_priority[kind].*part; };
    };
    const auto p99 = [&](Stats LiveLatencies::*part, int digits) {
        return spread_cell(runs, digits, [&](const LiveResult& r) {
            return (r.by_priority[kind].*part).percentile(0.99);
        });
    };
    table.rows.push_back({kind == 1 ? "high" : "normal", fmt::format("{:g}", background),
                          system.name, live_latency_cell(runs, 2, of(&LiveLatencies::ttft)),
                          p99(&LiveLatencies::ttft, 2),
                          live_latency_cell(runs, 3, of(&LiveLatencies::tpot)),
                          p99(&LiveLatencies::tpot, 3), p99(&LiveLatencies::stall, 2)});
}

}  // namespace

base::Status write_priorities(const ExperimentOptions& options, ExperimentPage& page) {
    TRY(const LiveCluster cluster, live_cluster(kLiveMachines, "A10", "llama2-7b", 400));
    const sim::LengthSource lengths = power_law_lengths({256, 6144}, {256, 6144});
    const sim::LengthSource short_ones = power_law_lengths({128, 2048}, {128, 2048});
    LiveGrid grid;
    for (const double background : kBackground) {
        for (const PrioritySystem& system : kPrioritySystems) {
            grid.add(row_of(background, system), [&](std::uint64_t seed) {
                LiveCase c;
                c.cluster = &cluster;
                c.warmup_s = kLiveWarmupS * options.time_share;
                c.duration_s = kLiveDurationS * options.time_share;
                c.priorities = system.priorities;
                c.balance.headroom = system.headroom;
                const double end_s = c.warmup_s + c.duration_s;
                c.arrivals = together(
                    live_arrivals(
                        lengths,
                        {.requests_per_s = background, .cv = 4, .end_s = end_s, .seed = seed}),
                    live_arrivals(short_ones, {.requests_per_s = kHighPerS,
                                               .cv = 1,
                                               .priority = 1,
                                               .end_s = end_s,
                                               .seed = seed + 1000}));
                c.seed = seed;
                return c;
            });
        }
    }
    TRY_VOID(grid.run(options));
    ExperimentTable table;
    table.title = "Requests of high priority while the load of the others doubles";
    table.head = {"priority",
                  "others, requests/s",
                  "system",
                  "TTFT s (mean / p50 / p99)",
                  "P99 TTFT s (spread)",
                  "TPOT s (mean / p50 / p99)",
                  "P99 TPOT s (spread)",
                  "stall s, p99"};
    view::BarChart chart{"P99 TTFT of high priority", "s", {}, {}};
    for (const double background : kBackground) {
        chart.series.push_back({fmt::format("{:g} others/s", background), {}});
        for (const std::size_t kind : {std::size_t{1}, std::size_t{0}}) {
            for (const PrioritySystem& system : kPrioritySystems)
                add_row(background, system, kind, grid, table);
        }
    }
    std::string ratios;
    for (const PrioritySystem& system : kPrioritySystems) {
        chart.groups.emplace_back(system.name);
        std::array<double, 2> tpot{};
        for (std::size_t b = 0; b < kBackground.size(); ++b) {
            const auto& runs = grid.at(row_of(kBackground[b], system));
            chart.series[b].values.push_back(
                mean_of(runs, [](const LiveResult& r) { return p99_ttft(high_of(r)); }));
            tpot[b] =
                mean_of(runs, [](const LiveResult& r) { return high_of(r).tpot.summary().mean; });
        }
        ratios += fmt::format(" {}: P99 TTFT x {:.2f}, mean TPOT x {:.2f}.", system.name,
                              chart.series[1].values.back() / chart.series[0].values.back(),
                              tpot[1] / tpot[0]);
    }
    page.text(live_bed_text(cluster));
    page.text(fmt::format(
        "{:g} requests/s of high priority with Poisson arrivals (power law, mean 128 tokens in "
        "and out) among others that come in bursts (CV 4, mean 256), at two rates. Headroom: a "
        "tenth of the memory of a machine where high priority runs is kept free of others. "
        "{} seeds.",
        kHighPerS, kLiveSeeds));
    page.table(std::move(table));
    page.bars("priorities", chart);
    page.text("When the load of the others doubles, for requests of high priority." + ratios);
    return base::Ok{};
}

}  // namespace helix::lab
