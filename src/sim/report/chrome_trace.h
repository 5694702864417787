#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "sim/report/observer.h"
#include "spec/cluster_spec.h"
#include "spec/placement.h"

namespace helix::sim {

struct ChromeTraceOptions {
    base::TimePoint begin{};                 // 0 of the trace; what ends before is left out
    std::uint64_t most_events = 500'000;     // about 60 MB; later ones are left out
    std::uint64_t follow_every = 20;         // every so manieth request is followed; 0 = none
    base::Duration kv_every = {50'000'000};  // between two KV values of one node
};

// Writes a run as Chrome trace JSON, for ui.perfetto.dev or chrome://tracing: every machine is a
// process with its batches and its outgoing links as threads and its KV memory as a counter;
// followed requests are spans under the coordinator, with arrows from batch to batch. When events
// were left out, an event at the place and "otherData" say so. Memory does not grow with the run.
class ChromeTrace final : public Observer {
  public:
    static base::Result<std::unique_ptr<ChromeTrace>> create(const std::string& path,
                                                             const spec::ClusterSpec& cluster,
                                                             const spec::Placement& placement,
                                                             const ChromeTraceOptions& options);

    // Completes the file; without it the file is not JSON. Nothing may be reported afterwards.
    base::Status finish(base::TimePoint now);
    std::uint64_t left_out() const { return left_out_; }

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
    void mark(base::TimePoint at, std::string_view text) override;

  private:
    struct Followed {
        const char* phase = nullptr;  // the open span inside the request's
        bool has_token = false;
        std::uint64_t arrows = 0;
        // The latest batch it was in; its arrow is written when the next is known.
        std::int32_t node = -1;
        std::int32_t next_layer = 0;
        base::TimePoint batch_begin;
    };

    ChromeTrace(std::string path, const spec::ClusterSpec& cluster,
                const ChromeTraceOptions& options);

    // Counts an event that ends at `at`; false when it is to be left out.
    bool admit(base::TimePoint at);
    void write(const std::string& event);  // without its separator
    double micros(base::TimePoint at) const;
    std::string name_of(std::int32_t node) const;
    void name_processes(const spec::ClusterSpec& cluster, const spec::Placement& placement);
    void span(char phase, std::uint64_t request, base::TimePoint at, const std::string& name);
    void enter(std::uint64_t request, base::TimePoint at, const char* phase);
    void arrow(std::uint64_t request, Followed& state, bool last);
    void end(std::uint64_t request, base::TimePoint at);

    std::string path_;
    ChromeTraceOptions options_;
    std::ofstream file_;
    bool any_ = false;
    std::uint64_t n_events_ = 0;
    std::uint64_t left_out_ = 0;
    base::TimePoint cut_at_;
    std::uint64_t n_created_ = 0;
    std::vector<std::string> names_;
    std::vector<base::TimePoint> kv_next_;  // of each node
    std::set<std::pair<std::int32_t, std::int32_t>> named_links_;
    std::unordered_map<std::uint64_t, Followed> followed_;
};

}  // namespace helix::sim
