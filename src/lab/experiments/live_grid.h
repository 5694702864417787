#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/experiments/experiment_page.h"
#include "lab/experiments/experiment_session.h"
#include "lab/experiments/live_run.h"

// The runs of one live experiment: each row of a table under several seeds.

namespace helix::lab {

constexpr std::uint64_t kLiveSeeds = 3;
constexpr std::int32_t kLiveMachines = 16;
// The window of a run whose load stays the same, and for how long the load is on before it.
constexpr double kLiveWarmupS = 100;
constexpr double kLiveDurationS = 300;

class LiveGrid {
  public:
    // A row that make() gives for each seed.
    void add(const std::string& row, const std::function<LiveCase(std::uint64_t seed)>& make);
    // Errors: a run that could not be.
    base::Status run(const ExperimentOptions& options);
    // By seed; the row was added and run.
    const std::vector<LiveResult>& at(const std::string& row) const { return results_.at(row); }

  private:
    std::vector<std::string> rows_;  // parallel to cases_
    std::vector<LiveCase> cases_;
    std::map<std::string, std::vector<LiveResult>> results_;
};

using LiveFigure = std::function<double(const LiveResult&)>;
double mean_of(const std::vector<LiveResult>& seeds, const LiveFigure& figure);
// The mean over the seeds, and the least and the greatest: "3.1 (2.8-3.5)".
std::string spread_cell(const std::vector<LiveResult>& seeds, int digits, const LiveFigure& figure);
// Seconds, means over the seeds: mean / p50 / p99.
std::string live_latency_cell(const std::vector<LiveResult>& seeds, int digits,
                              const std::function<const sim::LatencyStats&(const LiveResult&)>& of);

// What every live page says of its machines.
std::string live_bed_text(const LiveCluster& cluster);

// Of all requests, or of those of one kind.
double p99_ttft(const LiveLatencies& latencies);
double mean_ttft(const LiveLatencies& latencies);
double lost_s_per_1000(const LiveResult& result);
double preemptions_per_1000(const LiveResult& result);

base::Status write_rescheduling(const ExperimentOptions& options, ExperimentPage& page);
base::Status write_priorities(const ExperimentOptions& options, ExperimentPage& page);
base::Status write_defragmentation(const ExperimentOptions& options, ExperimentPage& page);
base::Status write_scaling(const ExperimentOptions& options, ExperimentPage& page);

}  // namespace helix::lab
