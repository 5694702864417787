#include "lab/experiments/live_grid.h"

#include <fmt/format.h>

#include <algorithm>

#include "lab/experiments/experiments.h"

namespace helix::lab {

void LiveGrid::add(const std::string& row,
                   const std::function<LiveCase(std::uint64_t seed)>& make) {
    for (std::uint64_t seed = 1; seed <= kLiveSeeds; ++seed) {
        rows_.push_back(row);
        cases_.push_back(make(seed));
    }
}

base::Status LiveGrid::run(const ExperimentOptions& options) {
    std::vector<LiveResult> results = run_all(cases_, options.threads, options.say);
    for (std::size_t i = 0; i < results.size(); ++i) {
        if (!results[i].error.empty()) {
            return base::invalid(fmt::format("{}: {}", rows_[i], results[i].error));
        }
        results_[rows_[i]].push_back(std::move(results[i]));
    }
    return base::Ok{};
}

double mean_of(const std::vector<LiveResult>& seeds, const LiveFigure& figure) {
    double sum = 0;
    for (const LiveResult& one : seeds) sum += figure(one);
    return seeds.empty() ? 0 : sum / static_cast<double>(seeds.size());
}

std::string spread_cell(const std::vector<LiveResult>& seeds, int digits,
                        const LiveFigure& figure) {
    if (seeds.empty()) return "-";
    double least = figure(seeds.front());
    double greatest = least;
    for (const LiveResult& one : seeds) {
        least = std::min(least, figure(one));
        greatest = std::max(greatest, figure(one));
    }
    return fmt::format("{:.{}f} ({:.{}f}-{:.{}f})", mean_of(seeds, figure), digits, least, digits,
                       greatest, digits);
}

std::string live_latency_cell(
    const std::vector<LiveResult>& seeds, int digits,
    const std::function<const sim::LatencyStats&(const LiveResult&)>& of) {
    const auto mean = [&](double sim::LatencySummary::*part) {
        return mean_of(seeds, [&](const LiveResult& r) { return of(r).summary().*part; });
    };
    return fmt::format("{:.{}f} / {:.{}f} / {:.{}f}", mean(&sim::LatencySummary::mean), digits,
                       mean(&sim::LatencySummary::p50), digits, mean(&sim::LatencySummary::p99),
                       digits);
}

std::string live_bed_text(const LiveCluster& cluster) {
    return fmt::format(
        "{}, each with the whole of {} in 16 bits and KV memory for {:.0f} tokens; speeds by "
        "datasheet; links of 10 Gb/s and 0.1 ms.",
        cluster.cluster.name, cluster.model.name, cluster.kv_tokens);
}

double p99_ttft(const LiveLatencies& latencies) {
    return latencies.ttft.percentile(0.99);
}

double mean_ttft(const LiveLatencies& latencies) {
    return latencies.ttft.summary().mean;
}

double lost_s_per_1000(const LiveResult& result) {
    return result.requests > 0 ? result.lost_s * 1000 / static_cast<double>(result.requests) : 0;
}

double preemptions_per_1000(const LiveResult& result) {
    return result.requests > 0
               ? static_cast<double>(result.preempted) * 1000 / static_cast<double>(result.requests)
               : 0;
}

std::vector<Experiment> live_experiments() {
    using Write = base::Status (*)(const ExperimentOptions&, ExperimentPage&);
    const auto live = [](const char* name, const char* shows, Write write) {
        Experiment experiment;
        experiment.name = name;
        experiment.shows = shows;
        experiment.ask = [](ExperimentSession&, int) -> base::Status { return base::Ok{}; };
        experiment.write = [write](ExperimentSession& session, ExperimentPage& page) {
            return write(session.options(), page);
        };
        experiment.topic = ExperimentTopic::live;
        return experiment;
    };
    return {live("rescheduling", "Requests that move, under bursts", write_rescheduling),
            live("priorities", "Requests that go first", write_priorities),
            live("defragmentation", "Room for long prompts", write_defragmentation),
            live("auto-scaling", "Machines that come and go", write_scaling)};
}

}  // namespace helix::lab
