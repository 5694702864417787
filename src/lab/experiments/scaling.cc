// Llumnix' fourth claim: machines that come and go with the load cost less at a like latency.

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "lab/experiments/live_grid.h"
#include "sim/load/synthetic_trace.h"

namespace helix::lab {
namespace {

constexpr double kDayS = 2400;  // from one night to the next
constexpr double kLeastPerS = 3;
constexpr double kMostPerS = 19;
constexpr double kCv = 2;
constexpr double kStartDelayS = 30;
constexpr double kNodeDiskBytesPerS = 1e9;
constexpr std::int32_t kLeastMachines = 2;

struct ScalingSystem {
    std::string name;
    bool scale;
    std::int32_t machines;  // at first
    double low;
    double high;
    bool balance = true;
};

const std::vector<ScalingSystem>& systems() {
    static const std::vector<ScalingSystem> all = [] {
        std::vector<ScalingSystem> made;
        for (const std::int32_t n : {10, 11, 12, 13, 14, 16}) {
            made.push_back({fmt::format("{} machines", n), false, n, 0, 0});
        }
        for (const bool balance : {true, false}) {
            for (const auto& [low, high] : {std::pair{64, 1024}, std::pair{256, 768},
                                            std::pair{512, 1024}, std::pair{1024, 2048}}) {
                made.push_back(
                    {fmt::format("{} to {}, freeness {} to {}{}", kLeastMachines, kLiveMachines,
                                 low, high, balance ? "" : ", no balance"),
                     true, kLeastMachines, static_cast<double>(low), static_cast<double>(high),
                     balance});
            }
        }
        return made;
    }();
    return all;
}

double rate_at(double at_s, double day_s) {
    const double wave = (1 - std::cos(2 * std::numbers::pi * at_s / day_s)) / 2;
    return kLeastPerS + (kMostPerS - kLeastPerS) * wave;
}

// Gaps of the current rate.
std::vector<sim::Arrival> rising_and_falling(const sim::LengthSource& lengths, double day_s,
                                             std::uint64_t seed) {
    base::Random random(seed);
    std::vector<sim::Arrival> arrivals;
    double at_s = 0;
    while (true) {
        at_s += sim::draw_gap(random, rate_at(at_s, day_s), kCv);
        if (at_s >= day_s) return arrivals;
        const auto row =
            static_cast<std::size_t>(random.uniform() * static_cast<double>(lengths.rows().size()));
        arrivals.push_back({at_s, lengths.rows()[row], 0});
    }
}

// How often the number of machines went down and soon up again.
std::int32_t flaps(const LiveResult& result) {
    constexpr double kSoonS = 120;
    std::int32_t n = 0;
    double fell_s = -1e9;
    for (std::size_t i = 1; i < result.samples.size(); ++i) {
        const std::int32_t step = result.samples[i].rented - result.samples[i - 1].rented;
        if (step > 0 && result.samples[i].at_s - fell_s < kSoonS) ++n;
        if (step < 0) fell_s = result.samples[i].at_s;
    }
    return n;
}

double node_hours(const LiveResult& result) {
    double seconds = 0;
    for (const LiveSample& sample : result.samples) seconds += sample.rented;
    return seconds / 3600;
}

LiveCase case_of(const ScalingSystem& system, const LiveCluster& cluster,
                 const sim::LengthSource& lengths, double day_s, std::uint64_t seed) {
    LiveCase c;
    c.cluster = &cluster;
    c.warmup_s = 0;
    c.duration_s = day_s;
    c.arrivals = rising_and_falling(lengths, day_s, seed);
    c.seed = seed;
    c.start_delay_s = kStartDelayS;
    c.disk_bytes_per_s = kNodeDiskBytesPerS;
    c.balance.enabled = system.balance;
    if (!system.scale) return c;
    c.machines_at_first = system.machines;
    core::AutoScaleConfig scale;
    scale.low = system.low;
    scale.high = system.high;
    scale.min_nodes = kLeastMachines;
    scale.max_nodes = kLiveMachines;
    scale.hold = base::from_seconds(5);
    scale.hold_down = base::from_seconds(60);
    scale.cool_down = base::from_seconds(10);
    c.scale = scale;
    return c;
}

double p99_of(const LiveGrid& grid, const ScalingSystem& system) {
    return mean_of(grid.at(system.name), [](const LiveResult& r) { return p99_ttft(r.all); });
}

// Against the fewest machines that are never stopped and whose P99 TTFT is no longer.
std::string saving(const LiveGrid& grid, const ScalingSystem& system) {
    if (!system.scale) return "-";
    const double p99_s = p99_of(grid, system);
    for (const ScalingSystem& fixed : systems()) {
        if (fixed.scale || p99_of(grid, fixed) > p99_s) continue;
        const double hours = mean_of(grid.at(fixed.name), node_hours);
        const double share = 1 - mean_of(grid.at(system.name), node_hours) / hours;
        return fmt::format("{:.0f} % ({})", share * 100, fixed.name);
    }
    return "none is as good";
}

ExperimentTable scaling_table(const LiveGrid& grid) {
    ExperimentTable table;
    table.title = "Machines that come and go with the load";
    table.head = {"system",
                  "machine hours",
                  "saved, of the fewest fixed ones as good",
                  "TTFT s (mean / p50 / p99)",
                  "P99 TTFT s (spread)",
                  "TPOT s (mean / p50 / p99)",
                  "stall s, p99",
                  "refused or lost",
                  "flaps"};
    using Stats = sim::LatencyStats;
    for (const ScalingSystem& system : systems()) {
        const std::vector<LiveResult>& runs = grid.at(system.name);
        const auto total = [&](const auto& figure) {
            double sum = 0;
            for (const LiveResult& r : runs) sum += static_cast<double>(figure(r));
            return fmt::format("{:.0f}", sum);
        };
        table.rows.push_back(
            {system.name, spread_cell(runs, 2, node_hours), saving(grid, system),
             live_latency_cell(runs, 2,
                               [](const LiveResult& r) -> const Stats& { return r.all.ttft; }),
             spread_cell(runs, 1, [](const LiveResult& r) { return p99_ttft(r.all); }),
             live_latency_cell(runs, 3,
                               [](const LiveResult& r) -> const Stats& { return r.all.tpot; }),
             spread_cell(runs, 2, [](const LiveResult& r) { return r.all.stall.percentile(0.99); }),
             total([](const LiveResult& r) { return r.report.rejected; }), total(flaps)});
    }
    return table;
}

// Of those that balance.
view::LineChart machines_chart(const LiveGrid& grid, double day_s) {
    view::LineChart chart{"Machines paid for, and load (seed 1)", "s", "machines, requests/s", {}};
    for (const ScalingSystem& system : systems()) {
        if (!system.scale || !system.balance) continue;
        std::vector<std::pair<double, double>> machines;
        for (const LiveSample& sample : grid.at(system.name).front().samples) {
            machines.emplace_back(sample.at_s, sample.rented);
        }
        chart.series.push_back({system.name, std::move(machines)});
    }
    std::vector<std::pair<double, double>> load;
    for (double at_s = 0; at_s <= day_s; at_s += day_s / 120) {
        load.emplace_back(at_s, rate_at(at_s, day_s));
    }
    chart.series.push_back({"requests/s, mean", std::move(load)});
    return chart;
}

}  // namespace

base::Status write_scaling(const ExperimentOptions& options, ExperimentPage& page) {
    const sim::LengthSource lengths = power_law_lengths({256, 6144}, {256, 6144});
    std::map<std::int32_t, LiveCluster> clusters;
    for (const ScalingSystem& system : systems()) {
        const std::int32_t most = system.scale ? kLiveMachines : system.machines;
        if (clusters.contains(most)) continue;
        TRY(LiveCluster cluster, live_cluster(most, "A10", "llama2-7b", 400));
        clusters.emplace(most, std::move(cluster));
    }
    const double day_s = kDayS * options.time_share;
    LiveGrid grid;
    for (const ScalingSystem& system : systems()) {
        const LiveCluster& cluster = clusters.at(system.scale ? kLiveMachines : system.machines);
        grid.add(system.name, [&](std::uint64_t seed) {
            return case_of(system, cluster, lengths, day_s, seed);
        });
    }
    TRY_VOID(grid.run(options));
    page.text(live_bed_text(clusters.at(kLiveMachines)));
    constexpr double kMeanShare = (kLeastPerS + kMostPerS) / 2 / kMostPerS;  // of a cosine
    page.text(fmt::format(
        "A day in {:.0f} s: the rate rises from {:g} to {:g} requests/s and falls again (power "
        "law, mean 256 tokens in and out; CV {:g}). A machine that is asked for is paid for at "
        "once, joins after {:.0f} s and loads its weights at 1 GB/s; one that goes is paid for "
        "until its requests have moved away. No balance: requests move only then. Saved: machine "
        "hours, against the fewest machines that are never stopped and whose P99 TTFT is no "
        "longer. On average the load is {:.0f} % of the rush, so no scaler saves more than "
        "{:.0f} %. Flaps: times that a machine came within 120 s after one went, of {} runs.",
        day_s, kLeastPerS, kMostPerS, kCv, kStartDelayS, kMeanShare * 100, (1 - kMeanShare) * 100,
        kLiveSeeds));
    page.table(scaling_table(grid));
    page.lines("scaling", machines_chart(grid, day_s));
    return base::Ok{};
}

}  // namespace helix::lab
