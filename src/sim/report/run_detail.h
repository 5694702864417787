#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/report/latency_stats.h"
#include "sim/report/observer.h"
#include "spec/cluster_spec.h"
#include "spec/placement.h"

namespace helix::sim {

struct NodeUse {
    std::int32_t node = 0;
    std::string name;
    std::string type;
    spec::LayerRange layers;
    double kv_mean = 0;  // over the window, as shares of its KV memory
    double kv_peak = 0;
};

struct LinkUse {
    std::string from;
    std::string to;
    double busy = 0;         // share of the window in which it sends
    double bytes_per_s = 0;  // over the window
    double mean_wait_s = 0;  // of a message, behind others
};

// What the window shows besides SimReport's own figures, of requests by when it happened to them.
struct RunDetail {
    double offered_tokens_per_s = 0;  // prompt and output tokens of the requests that came
    double requests_per_s = 0;        // finished
    std::uint64_t created = 0;        // requests, as Recording counts them
    std::uint64_t finished = 0;
    std::uint64_t rejected = 0;
    LatencySummary queueing;  // from arrival to a place in the cluster
    LatencySummary latency;   // of finished requests, from arrival to the last token
    // Finished requests whose first token and whose mean time per token keep these limits; a limit
    // of 0 is none.
    double ttft_slo_s = 0;
    double tpot_slo_s = 0;
    double goodput_per_s = 0;
    double good_share = 0;       // of the requests finished or rejected
    std::vector<NodeUse> nodes;  // those that hold layers
    std::vector<LinkUse> links;  // those that carried something, busiest first
};

struct RunDetailOptions {
    base::TimePoint window_begin{};
    base::TimePoint window_end{};
    double ttft_slo_s = 0;
    double tpot_slo_s = 0;
    // Where a queue is kept full on purpose (offline load), goodput counts from admission.
    bool from_admission = false;
};

// Counts while a run goes on; an order cheaper than a Recorder. Requests are numbered from 0.
class RunDetailObserver final : public Observer {
  public:
    // Both must outlive it. kv_capacity: of each node, in the unit of kv_used(); empty or 0 where
    // unknown.
    RunDetailObserver(const spec::ClusterSpec& cluster, const spec::Placement& placement,
                      std::vector<double> kv_capacity, const RunDetailOptions& options);

    bool request_created(std::uint64_t request, base::TimePoint at, std::int32_t prompt_tokens,
                         std::int32_t output_tokens) override;
    void request_admitted(std::uint64_t request, base::TimePoint at,
                          std::span<const PipelineStage> pipeline) override;
    void token(std::uint64_t request, base::TimePoint at) override;
    void request_finished(std::uint64_t request, base::TimePoint at) override;
    void request_rejected(std::uint64_t request, base::TimePoint at) override;
    void link_carried(const LinkTransfer& transfer) override;
    void kv_used(std::int32_t node, base::TimePoint at, double used) override;

    // After the run.
    RunDetail detail();

  private:
    struct Request {
        base::TimePoint created;
        base::TimePoint admitted{-1};
        base::TimePoint first_token;
        base::TimePoint last_token;
        std::int32_t tokens = 0;
    };
    struct Kv {
        base::TimePoint since;
        double now = 0;
        double integral = 0;
        double peak = 0;
    };
    struct Link {
        base::Duration busy;
        base::Duration waited;
        double bytes = 0;
        std::uint64_t transfers = 0;
    };

    bool in_window(base::TimePoint at) const {
        return options_.window_begin <= at && at < options_.window_end;
    }
    base::Duration window_part(base::TimePoint begin, base::TimePoint end) const;
    void hold_kv(Kv& kv, base::TimePoint at) const;
    std::size_t link_slot(std::int32_t from, std::int32_t to) const {
        return static_cast<std::size_t>(from + 1) * n_vertices_ + static_cast<std::size_t>(to + 1);
    }

    const spec::ClusterSpec& cluster_;
    const spec::Placement& placement_;
    std::vector<double> kv_capacity_;
    RunDetailOptions options_;
    std::size_t n_vertices_;
    std::vector<Request> requests_;
    std::vector<Kv> kv_;
    std::vector<std::int32_t> link_of_pair_;  // index into links_, or -1
    std::vector<std::pair<std::int32_t, std::int32_t>> link_ends_;
    std::vector<Link> links_;
    LatencyStats queueing_;
    LatencyStats latency_;
    double offered_tokens_ = 0;
    std::uint64_t created_ = 0;
    std::uint64_t finished_ = 0;
    std::uint64_t rejected_ = 0;
    std::uint64_t good_ = 0;
};

}  // namespace helix::sim
