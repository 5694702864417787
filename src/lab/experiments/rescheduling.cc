// Llumnix' first claim: requests that move make bursts cheaper. The same load on one cluster with
// and without moves, and on machines that each have a queue of their own.

#include <fmt/format.h>

#include <array>

#include "lab/experiments/live_grid.h"
#include "sim/load/synthetic_trace.h"

namespace helix::lab {
namespace {

struct ArrivalLoad {
    const char* lengths;
    double per_s;
    double cv;
};
constexpr std::array<ArrivalLoad, 6> kArrivalLoads = {{{"power law", 19, 4},
                                                       {"power law", 24, 1},
                                                       {"power law", 24, 4},
                                                       {"power law", 24, 8},
                                                       {"power law", 27, 4},
                                                       {"conversations", 20, 4}}};

struct ReschedulingSystem {
    const char* name;
    bool apart;
    bool moves;
    const char* router;
    bool as_llumnix;
};
constexpr std::array<ReschedulingSystem, 6> kReschedulingSystems = {
    {{"a queue at each machine, in turn", true, false, "helix", false},
     {"one queue", false, false, "helix", false},
     {"one queue, moves", false, true, "helix", false},
     {"one queue, freest", false, false, "freest", false},
     {"one queue, freest, moves", false, true, "freest", false},
     {"one queue, dispatch and moves of Llumnix", false, true, "llumnix", true}}};

std::string row_of(const ArrivalLoad& load, const ReschedulingSystem& system) {
    return fmt::format("{} {:g}/s CV {:g} {}", load.lengths, load.per_s, load.cv, system.name);
}

// Systems of another dispatch only where they tell something: where memory is short.
bool compared(const ArrivalLoad& load, const ReschedulingSystem& system) {
    return std::string_view(system.router) == "helix" || load.per_s >= 17 ||
           (load.per_s == 15 && load.cv == 4);
}

void add_rows(const ArrivalLoad& load, const ReschedulingSystem& system, ExperimentTable& table,
              const LiveGrid& grid) {
    const std::vector<LiveResult>& runs = grid.at(row_of(load, system));
    const double tokens = mean_of(runs, [](const LiveResult& r) { return r.lost_tokens; });
    const double requests =
        mean_of(runs, [](const LiveResult& r) { return static_cast<double>(r.requests); });
    table.rows.push_back(
        {load.lengths, fmt::format("{:g}", load.per_s), fmt::format("{:g}", load.cv), system.name,
         live_latency_cell(
             runs, 2, [](const LiveResult& r) -> const sim::LatencyStats& { return r.all.ttft; }),
         spread_cell(runs, 1, [](const LiveResult& r) { return p99_ttft(r.all); }),
         spread_cell(runs, 1, [](const LiveResult& r) { return r.all.stall.percentile(0.99); }),
         spread_cell(runs, 1, preemptions_per_1000), spread_cell(runs, 0, lost_s_per_1000),
         fmt::format("{:.1f}", tokens / requests),
         fmt::format("{:.0f}", mean_of(runs, [](const LiveResult& r) {
                         return static_cast<double>(r.report.migrated);
                     }))});
}

}  // namespace

base::Status write_rescheduling(const ExperimentOptions& options, ExperimentPage& page) {
    TRY(const LiveCluster cluster, live_cluster(kLiveMachines, "A10", "llama2-7b", 400));
    TRY(const LiveCluster one, live_cluster(1, "A10", "llama2-7b", 400));
    const sim::LengthSource power_law = power_law_lengths({256, 6144}, {256, 6144});
    const sim::LengthSource conversations = sim::conversation_lengths();
    LiveGrid grid;
    for (const ArrivalLoad& load : kArrivalLoads) {
        const bool law = std::string_view(load.lengths) == "power law";
        for (const ReschedulingSystem& system : kReschedulingSystems) {
            if (!compared(load, system)) continue;
            grid.add(row_of(load, system), [&](std::uint64_t seed) {
                LiveCase c;
                c.cluster = &cluster;
                c.own_queues = system.apart ? &one : nullptr;
                c.warmup_s = kLiveWarmupS * options.time_share;
                c.duration_s = kLiveDurationS * options.time_share;
                c.router = system.router;
                c.balance.enabled = system.moves;
                c.as_llumnix = system.as_llumnix;
                c.arrivals = live_arrivals(law ? power_law : conversations,
                                           {.requests_per_s = load.per_s,
                                            .cv = load.cv,
                                            .end_s = c.warmup_s + c.duration_s,
                                            .seed = seed});
                c.seed = seed;
                return c;
            });
        }
    }
    TRY_VOID(grid.run(options));
    ExperimentTable table;
    table.title = "Bursts at equal average rate";
    table.head = {"lengths",
                  "requests/s",
                  "CV",
                  "system",
                  "TTFT s (mean / p50 / p99)",
                  "P99 TTFT s (spread)",
                  "stall s, p99",
                  "preemptions / 1000",
                  "s lost / 1000 requests",
                  "tokens again / request",
                  "moves"};
    view::BarChart lost{"Time lost to preemption", "s per 1000 requests", {}, {}};
    view::BarChart ttft{"P99 time to the first token", "s", {}, {}};
    for (std::size_t s = 0; s < 3; ++s) {
        lost.series.push_back({kReschedulingSystems[s].name, {}});
        ttft.series.push_back({kReschedulingSystems[s].name, {}});
    }
    for (const ArrivalLoad& load : kArrivalLoads) {
        for (view::BarChart* chart : {&lost, &ttft}) {
            chart->groups.push_back(fmt::format(
                "{}{:g}/s, CV {:g}", std::string_view(load.lengths) == "power law" ? "" : "conv. ",
                load.per_s, load.cv));
        }
        for (std::size_t s = 0; s < kReschedulingSystems.size(); ++s) {
            if (!compared(load, kReschedulingSystems[s])) continue;
            add_rows(load, kReschedulingSystems[s], table, grid);
            if (s >= lost.series.size()) continue;
            const auto& runs = grid.at(row_of(load, kReschedulingSystems[s]));
            lost.series[s].values.push_back(mean_of(runs, lost_s_per_1000));
            ttft.series[s].values.push_back(
                mean_of(runs, [](const LiveResult& r) { return p99_ttft(r.all); }));
        }
    }
    page.text(live_bed_text(cluster));
    page.text(fmt::format(
        "Arrivals have gamma distributed gaps of the given coefficient of variation. Lengths: a "
        "power law from 16 to 6,144 tokens with a mean of 256, prompts and outputs alike; or "
        "conversations like those of the Azure trace. {:.0f} s counted after {:.0f} s, {} seeds: "
        "mean (least-greatest). Stall: the longest time between two tokens of a request. Lost: "
        "from the last token before a preemption to the next one.",
        kLiveDurationS * options.time_share, kLiveWarmupS * options.time_share, kLiveSeeds));
    page.table(std::move(table));
    page.bars("preemption", lost);
    page.bars("ttft", ttft);
    return base::Ok{};
}

}  // namespace helix::lab
