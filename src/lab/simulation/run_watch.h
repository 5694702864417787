#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/report/chrome_trace.h"
#include "sim/report/observer.h"
#include "sim/report/recorder.h"
#include "sim/report/report.h"
#include "sim/report/run_detail.h"
#include "spec/cluster_spec.h"
#include "spec/placement.h"

namespace helix::lab {

struct WatchOptions {
    std::string html;       // file for a page with plots; "": none
    std::string trace_out;  // file for chrome://tracing; "": none
    double ttft_slo_s = 0;
    double tpot_slo_s = 0;
};

// What looks on while a cluster is simulated: for the report's details, its page and its trace.
class RunWatch {
  public:
    // cluster and placement must outlive it. kv_capacity: of each node, in the unit that the world
    // reports. start_s: when load begins.
    static base::Result<std::unique_ptr<RunWatch>> create(const WatchOptions& options,
                                                          const spec::ClusterSpec& cluster,
                                                          const spec::Placement& placement,
                                                          std::int32_t n_layers,
                                                          const std::vector<double>& kv_capacity,
                                                          double start_s, double warmup_s,
                                                          double duration_s, bool offline);

    sim::Observer* observer() {
        return observers_ ? static_cast<sim::Observer*>(observers_.get()) : detail_.get();
    }
    // Adds the details to the report and writes the files.
    base::Status finish(sim::SimReport& report, const std::string& title,
                        std::vector<std::pair<std::string, std::string>> facts);

  private:
    WatchOptions options_;
    base::TimePoint end_;
    std::unique_ptr<sim::RunDetailObserver> detail_;
    std::unique_ptr<sim::Recorder> recorder_;
    std::unique_ptr<sim::ChromeTrace> trace_;
    std::unique_ptr<sim::ObserverList> observers_;
};

}  // namespace helix::lab
