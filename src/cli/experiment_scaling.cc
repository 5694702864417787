// Llumnix' fourth claim: machines that come and go with the load cost less at a like latency.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>

#include "base/random.h"
#include "cli/live_grid.h"
#include "sim/synthetic_trace.h"

namespace helix::cli {
namespace {

constexpr double kDurationS = 1800;
constexpr double kWaveS = 900;  // from one rush to the next
constexpr double kLeastPerS = 2;
constexpr double kMostPerS = 12;
constexpr double kCv = 2;
constexpr double kStartDelayS = 30;
constexpr double kDiskBytesPerS = 1e9;

struct System {
    const char* name;
    bool scale;
    std::int32_t machines;  // at first
    double low;
    double high;
};
constexpr std::array<System, 5> kSystems = {
    {{"16 machines", false, 16, 0, 0},
     {"12 machines", false, 12, 0, 0},
     {"8 machines", false, 8, 0, 0},
     {"4 to 16, freeness 64 to 1024", true, 4, 64, 1024},
     {"4 to 16, freeness 512 to 3072", true, 4, 512, 3072}}};

double rate_at(double at_s, double wave_s) {
    const double wave = (1 - std::cos(2 * std::numbers::pi * at_s / wave_s)) / 2;
    return kLeastPerS + (kMostPerS - kLeastPerS) * wave;
}

// Gaps of the current rate.
std::vector<sim::Arrival> rising_and_falling(const sim::LengthSource& lengths, double end_s,
                                             double wave_s, std::uint64_t seed) {
    base::Random random(seed);
    std::vector<sim::Arrival> arrivals;
    double at_s = 0;
    while (true) {
        at_s += sim::draw_gap(random, rate_at(at_s, wave_s), kCv);
        if (at_s >= end_s) return arrivals;
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

}  // namespace

base::Status write_scaling(const ExperimentOptions& options, ExperimentPage& page) {
    const sim::LengthSource lengths = power_law_lengths({256, 6144}, {256, 6144});
    std::map<std::int32_t, LiveCluster> clusters;
    for (const System& system : kSystems) {
        const std::int32_t most = system.scale ? kLiveMachines : system.machines;
        if (clusters.contains(most)) continue;
        TRY(LiveCluster cluster, live_cluster(most, "A10", "llama2-7b", 400));
        clusters.emplace(most, std::move(cluster));
    }
    const double duration_s = kDurationS * options.time_share;
    const double wave_s = kWaveS * options.time_share;
    LiveGrid grid;
    for (const System& system : kSystems) {
        grid.add(system.name, [&](std::uint64_t seed) {
            LiveCase c;
            c.cluster = &clusters.at(system.scale ? kLiveMachines : system.machines);
            c.warmup_s = 0;
            c.duration_s = duration_s;
            c.arrivals = rising_and_falling(lengths, duration_s, wave_s, seed);
            c.seed = seed;
            c.start_delay_s = kStartDelayS;
            c.disk_bytes_per_s = kDiskBytesPerS;
            if (system.scale) {
                c.machines_at_first = system.machines;
                core::AutoScaleConfig scale;
                scale.low = system.low;
                scale.high = system.high;
                scale.min_nodes = 4;
                scale.max_nodes = kLiveMachines;
                scale.hold = base::from_seconds(5);
                scale.hold_down = base::from_seconds(60);
                scale.cool_down = base::from_seconds(10);
                c.scale = scale;
            }
            return c;
        });
    }
    TRY_VOID(grid.run(options));
    ExperimentTable table;
    table.title = "Machines that come and go with the load";
    table.head = {"system",
                  "machine hours",
                  "TTFT s (mean / p50 / p99)",
                  "P99 TTFT s (spread)",
                  "TPOT s (mean / p50 / p99)",
                  "stall s, p99",
                  "refused or lost",
                  "flaps"};
    sim::LineChart chart{"Machines paid for, and load (seed 1)", "s", "machines, requests/s", {}};
    for (const System& system : kSystems) {
        const std::vector<LiveResult>& runs = grid.at(system.name);
        using Stats = sim::LatencyStats;
        const auto total = [&](const auto& figure) {
            double sum = 0;
            for (const LiveResult& r : runs) sum += static_cast<double>(figure(r));
            return fmt::format("{:.0f}", sum);
        };
        table.rows.push_back(
            {system.name, spread_cell(runs, 2, node_hours),
             live_latency_cell(runs, 2,
                               [](const LiveResult& r) -> const Stats& { return r.all.ttft; }),
             spread_cell(runs, 1, [](const LiveResult& r) { return p99_ttft(r.all); }),
             live_latency_cell(runs, 3,
                               [](const LiveResult& r) -> const Stats& { return r.all.tpot; }),
             spread_cell(runs, 2, [](const LiveResult& r) { return r.all.stall.percentile(0.99); }),
             total([](const LiveResult& r) { return r.report.rejected; }), total(flaps)});
        if (!system.scale) continue;
        std::vector<std::pair<double, double>> machines;
        for (const LiveSample& sample : runs.front().samples) {
            machines.emplace_back(sample.at_s, sample.rented);
        }
        chart.series.push_back({system.name, std::move(machines)});
    }
    std::vector<std::pair<double, double>> load;
    for (double at_s = 0; at_s <= duration_s; at_s += duration_s / 120) {
        load.emplace_back(at_s, rate_at(at_s, wave_s));
    }
    chart.series.push_back({"requests/s, mean", std::move(load)});
    page.text(live_bed_text(clusters.at(kLiveMachines)));
    page.text(fmt::format(
        "The rate rises from {:g} to {:g} requests/s and falls again every {:.0f} s, for {:.0f} s "
        "(power law, mean 256 tokens in and out; CV {:g}). A machine that is asked for is paid for "
        "at once, joins after {:.0f} s and loads its weights at 1 GB/s. Flaps: times that a "
        "machine came within 120 s after one went, of {} runs.",
        kLeastPerS, kMostPerS, wave_s, duration_s, kCv, kStartDelayS, kLiveSeeds));
    page.table(std::move(table));
    page.lines("scaling", chart);
    return base::Ok{};
}

}  // namespace helix::cli
