#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/report/observer.h"
#include "sim/report/recording.h"
#include "sim/report/time_grid.h"
#include "spec/cluster_spec.h"
#include "spec/placement.h"

namespace helix::sim {

struct RecorderOptions {
    base::TimePoint begin{};         // of the time axis, e.g. when models are loaded
    base::TimePoint window_begin{};  // what counts: [window_begin, window_end)
    base::TimePoint window_end{};
    double ttft_limit_s = 0;  // service levels for goodput; 0 = none
    double tpot_limit_s = 0;
    // Where a queue is kept full on purpose (offline load), TTFT and latency count from admission.
    bool from_admission = false;
    std::size_t timelines = 12;  // requests followed, drawn at random from the window's
    std::size_t slices_per_timeline = 3000;
    std::uint64_t seed = 0;
    std::size_t buckets = 240;  // of the time axis; even
    std::size_t link_buckets = 60;
};

// Watches a run in memory that depends on cluster and options and on the requests open at one time,
// not on how long the run is.
class Recorder final : public Observer {
  public:
    // kv_capacity: of each node, in the unit of kv_used(); empty or 0 where unknown.
    Recorder(const spec::ClusterSpec& cluster, const spec::Placement& placement,
             std::int32_t n_layers, const std::vector<double>& kv_capacity,
             const RecorderOptions& options);

    bool request_created(std::uint64_t request, base::TimePoint at, std::int32_t prompt_tokens,
                         std::int32_t output_tokens) override;
    void request_admitted(std::uint64_t request, base::TimePoint at,
                          std::span<const PipelineStage> pipeline) override;
    void token(std::uint64_t request, base::TimePoint at) override;
    void request_preempted(std::uint64_t request, base::TimePoint at) override;
    void request_finished(std::uint64_t request, base::TimePoint at) override;
    void request_rejected(std::uint64_t request, base::TimePoint at) override;
    void node_computed(const NodeBatch& batch) override;
    void link_carried(const LinkTransfer& transfer) override;
    void kv_used(std::int32_t node, base::TimePoint at, double used) override;
    void request_computed(const RequestWork& work) override;
    void request_moved(const RequestMove& move) override;
    void mark(base::TimePoint at, std::string_view text) override;

    // What was seen until now; the run may go on afterwards.
    Recording recording(base::TimePoint now);

  private:
    struct Open {
        base::TimePoint created;
        base::TimePoint counted_from;  // creation or admission
        base::TimePoint first_token;
        base::TimePoint last_token;
        std::int32_t prompt_tokens = 0;
        std::int32_t tokens = 0;
        bool admitted = false;  // at least once
        bool running = false;
    };
    struct Node {
        double busy_s = 0;
        double decodes = 0;  // these two as passes over all layers of the node
        double prompt_tokens = 0;
        double decodes_in_batches = 0;
        std::uint64_t batches = 0;
        std::uint64_t decode_batches = 0;
        double kv_peak = 0;
        base::TimePoint kv_since;
        double kv_now = 0;
        double kv_integral = 0;
        std::vector<double> layer_steps;  // tokens that enter at a layer less those that leave
    };
    struct Link {
        std::size_t row = 0;
        double busy_s = 0;
        double bytes = 0;
        std::uint64_t transfers = 0;
        double wait_s = 0;
        double most_wait_s = 0;
    };

    bool in_window(base::TimePoint at) const;
    // Seconds of [begin, end) inside the window.
    double window_part(base::TimePoint begin, base::TimePoint end) const;
    bool follow(std::uint64_t request, base::TimePoint at, std::int32_t prompt_tokens);
    Timeline* timeline_of(std::uint64_t request);
    void add_slice(Timeline& timeline, const TimelineSlice& slice);
    void end(std::uint64_t request, base::TimePoint at, bool rejected);
    void count_requests(base::TimePoint at);
    void hold_kv(std::size_t node, base::TimePoint at);
    // per_s: 1 / seconds of the window.
    NodeRecord node_record(std::size_t node, base::TimePoint now, double per_s);
    std::vector<LinkRecord> link_records(base::TimePoint now, double per_s);

    RecorderOptions options_;
    Recording seen_;  // its counters and distributions; the rest is made by recording()
    std::vector<Node> nodes_;
    std::map<std::pair<std::int32_t, std::int32_t>, Link> links_;
    std::map<std::pair<std::int32_t, std::int32_t>, double> link_capacity_;
    std::unordered_map<std::uint64_t, Open> open_;
    TimeGrid node_busy_;  // a row for each node
    TimeGrid node_kv_;
    TimeGrid load_;  // rows of Row
    TimeGrid link_busy_;
    StepValue running_steps_;
    StepValue waiting_steps_;
    std::uint64_t n_running_ = 0;
    std::uint64_t n_waiting_ = 0;
    base::TimePoint counted_at_;
    double running_integral_ = 0;
    double waiting_integral_ = 0;
    double decode_tokens_ = 0;
    double prompt_tokens_ = 0;
    std::uint64_t n_candidates_ = 0;                           // for being followed
    std::unordered_map<std::uint64_t, std::size_t> followed_;  // into seen_.timelines
};

}  // namespace helix::sim
