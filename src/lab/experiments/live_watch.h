#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "lab/experiments/live_run.h"
#include "sim/report/observer.h"

namespace helix::lab {

// Watches a live run: the n-th request is the n-th arrival.
class LiveWatch final : public sim::Observer {
  public:
    // start_s: when load begins. blocks: of KV memory at each machine. wanted must outlive it.
    LiveWatch(const LiveCase& wanted, double start_s, double blocks);

    bool request_created(std::uint64_t request, base::TimePoint at, std::int32_t prompt_tokens,
                         std::int32_t output_tokens) override;
    void request_admitted(std::uint64_t request, base::TimePoint at,
                          std::span<const sim::PipelineStage> pipeline) override;
    void request_preempted(std::uint64_t request, base::TimePoint at) override;
    void token(std::uint64_t request, base::TimePoint at) override;
    void request_finished(std::uint64_t request, base::TimePoint at) override;
    void request_rejected(std::uint64_t request, base::TimePoint at) override;
    void kv_used(std::int32_t node, base::TimePoint at, double used) override;
    void node_rented(std::int32_t node, base::TimePoint at, bool rented) override;

    // After the run.
    void finish(LiveResult& result);

  private:
    struct Request {
        base::TimePoint created;
        base::TimePoint last_token;
        double longest_gap_s = 0;
        std::int32_t tokens = 0;
        bool counts = false;
        bool preempted = false;  // since its last token
    };

    bool is_long(std::uint64_t request) const;
    template <typename Add>
    void add(std::uint64_t request, const Add& add_to);
    void sample(base::TimePoint until);

    const LiveCase& wanted_;
    base::TimePoint start_;
    base::TimePoint window_begin_;
    base::TimePoint window_end_;
    double blocks_;
    std::int32_t long_prompt_ = 0;
    std::vector<Request> requests_;
    std::set<std::uint64_t> waiting_;  // not admitted for the first time
    std::vector<double> pages_;        // by node
    std::vector<char> rented_;         // by node
    base::TimePoint next_sample_;
    LiveResult seen_;
};

}  // namespace helix::lab
