#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "sim/load/load_random.h"
#include "sim/published/reference_events.h"
#include "sim/published/reference_setup.h"
#include "sim/report/report.h"

// The published simulator's rules of time: nodes that run one layer at a time for whatever waits
// before it, links that carry one request at a time, a coordinator that costs nothing.

namespace helix::sim {

// A place in a table of live queries; free again when the query ends.
using QueryId = std::uint32_t;

struct ReferenceQuery {
    std::int32_t prompt_tokens = 0;
    std::int32_t output_tokens = 0;
    std::int32_t pass = 0;  // 0: the prompt's; k: of the k-th decode token
    std::uint32_t hop = 0;  // hops of the route taken in this pass
    std::uint64_t number = 0;
    double issued_s = 0;              // this pass
    double ready_s = 0;               // began to wait for the latest hop
    double sent_s = 0;                // start of the latest hop
    bool followed = false;            // by the observer
    std::vector<std::int32_t> route;  // links; the last one leads to the coordinator

    bool is_prompt() const { return pass == 0; }
    std::int32_t tokens() const { return pass == 0 ? prompt_tokens : 1; }
    std::int64_t context() const { return prompt_tokens + pass - 1; }  // before this pass's token
};

struct ReferenceLinkState {
    std::int32_t from = 0;  // endpoints: a node, or the coordinator
    std::int32_t to = 0;
    double latency_s = 0;
    double bandwidth_bytes_per_s = 0;
    double flow_tokens_per_s = 0;
    double bytes_per_token = 0;
    bool busy = false;
    QueryId carries = 0;
    double available_bytes_per_s = 0;
    double reserved_bytes_per_s = 0;
};

struct ReferenceEndpoint {
    std::vector<std::int32_t> out;  // links, in the setup's order
    std::vector<std::int32_t> in;
    double nic_out_bytes_per_s = 0;
    double nic_in_bytes_per_s = 0;
    double out_available_bytes_per_s = 0;
    double in_available_bytes_per_s = 0;
};

class ReferenceWorld;

// Who decides where requests go. One file per policy; ReferenceWorld calls it, and it calls back
// ReferenceWorld::send. A pass's route must be complete by the time its prompt reaches the
// coordinator again; decodes follow their prompt's route.
class ReferenceRouting {
  public:
    virtual ~ReferenceRouting() = default;
    // A pass begins at the coordinator. False: the request is refused for good (prompts only).
    virtual bool issue(QueryId query) = 0;
    // The query has come to the end of what `endpoint` does with it.
    virtual void wait(std::int32_t endpoint, QueryId query) = 0;
    // A link of the endpoint is free, or something waits that did not.
    virtual void transmit(std::int32_t endpoint) = 0;
    virtual void finished(QueryId query) = 0;
    // Offline: is there room for one more, now that a prompt or a whole request has finished?
    virtual bool wants_more(bool after_prompt) = 0;
};

class ReferenceWorld {
  public:
    using Progress = std::function<void(double done_s, double total_s)>;

    // The setup is checked by run_reference() and must outlive the world.
    explicit ReferenceWorld(const ReferenceSetup& setup);
    ~ReferenceWorld();
    ReferenceWorld(const ReferenceWorld&) = delete;
    ReferenceWorld& operator=(const ReferenceWorld&) = delete;

    base::Result<SimReport> run(const Progress& progress);

    // For routing policies.
    const ReferenceSetup& setup() const { return setup_; }
    double now_s() const { return events_.now_s(); }
    ReferenceQuery& query(QueryId id) { return queries_[id]; }
    std::int32_t coordinator() const { return static_cast<std::int32_t>(setup_.nodes.size()); }
    std::int32_t n_endpoints() const { return coordinator() + 1; }
    const ReferenceEndpoint& endpoint(std::int32_t e) const {
        return endpoints_[static_cast<std::size_t>(e)];
    }
    const ReferenceLinkState& link(std::int32_t l) const {
        return links_[static_cast<std::size_t>(l)];
    }
    std::int32_t n_links() const { return static_cast<std::int32_t>(links_.size()); }
    std::size_t waiting_at_entry(std::int32_t node) const;  // before its first layer
    PythonRandom& random() { return random_; }
    // Takes the next hop of the query's route over its link, which must be free.
    void send(std::int32_t link, QueryId query, double bandwidth_bytes_per_s);
    void transmit_later(std::int32_t endpoint);  // now, but after what is due already

  private:
    struct Node;

    void build();
    QueryId add_query(double at_s, RequestLength length);
    void drop_query(QueryId id);
    void handle(const ReferenceEvents::Event& event);
    void on_arrive(QueryId id);
    void on_sent(std::int32_t link);
    void on_received(QueryId id);
    void on_gather();
    void on_start_execution(std::uint32_t node);
    void on_finish_execution(std::uint32_t node);
    void next_pass_or_end(QueryId id);
    void feed(bool after_prompt);
    void record_pass(const ReferenceQuery& query);
    void free_kv(const ReferenceQuery& query);
    void wait(std::int32_t endpoint, QueryId id);
    // For the observer, which is not null.
    std::int32_t cluster_node(std::int32_t endpoint) const;
    void tell_admitted(const ReferenceQuery& query);
    void tell_computed(std::uint32_t node, spec::LayerRange layers);
    void tell_carried(const ReferenceLinkState& link, const ReferenceQuery& query);
    void note_layer_kv();
    void note_resident(std::int64_t change);
    double take_batch(const ReferenceNode& limits, Node& node);
    void choose_kind(Node& node) const;
    void start_soon(std::uint32_t node);
    void run_for(Node& node, std::uint32_t index, double seconds);
    // two_passes.
    std::int32_t entry_layer(const ReferenceQuery& query) const;
    void start_pass(std::uint32_t node);
    void take_in(Node& node);
    double take_prompt_pass(Node& node);
    double take_decode_pass(const ReferenceNode& limits, Node& node);
    double layer_s(double device_s) const;
    double copy_out_s(std::uint32_t node) const;
    void finish_pass(std::uint32_t node);
    SimReport report() const;

    const ReferenceSetup& setup_;
    PythonRandom random_;
    ReferenceEvents events_;
    std::unique_ptr<ReferenceRouting> routing_;
    LengthSource lengths_;
    std::vector<Node> nodes_;
    std::vector<ReferenceEndpoint> endpoints_;
    std::vector<ReferenceLinkState> links_;
    std::vector<ReferenceQuery> queries_;
    std::vector<QueryId> free_queries_;
    std::vector<QueryId> at_sink_;
    double window_begin_s_ = 0;
    double window_end_s_ = 0;
    std::uint64_t n_queries_ = 0;
    std::uint64_t prompt_tokens_ = 0;  // in the window
    std::uint64_t decode_tokens_ = 0;
    std::uint64_t stages_ = 0;  // of the prompts that finished
    std::uint64_t n_prompts_done_ = 0;
    std::int64_t n_resident_ = 0;
    double resident_since_s_ = 0;
    double resident_s_ = 0;  // integral over the window
    LatencyStats ttft_;
    LatencyStats tpot_;
    SimReport counts_;
    std::vector<double> layer_used_;
    std::vector<double> layer_total_;
};

// Checks the setup and runs it. Errors say what is impossible: a layer that nobody holds, a prompt
// that no batch takes, arrivals without a rate.
base::Result<SimReport> run_reference(const ReferenceSetup& setup,
                                      const ReferenceWorld::Progress& progress = {});

}  // namespace helix::sim
