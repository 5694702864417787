#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/link_health.h"
#include "core/coordinator/request_table.h"

namespace helix::core {

// PendingPlacement is on its way into force, step by step (core/coordinator/transition_steps.h).
struct PendingPlacement {
    spec::Placement placement;
    std::vector<WorkerId> workers;  // node index -> worker
    std::vector<spec::LinkFlow> flows;
    // The pages that are expected, by node index; empty: not known.
    std::vector<std::int64_t> kv_pages;
    std::set<WorkerId> changed;           // workers that do not hold their layers yet
    std::unique_ptr<RequestRouter> ways;  // the router, once it is in force
    // A request that it could not hold and that its first step waits for.
    std::optional<RequestId> waits_for;

    // A step is under way. Where nothing changes there is a single step without workers.
    bool stepping = false;
    // The part of changed that is emptied and then loads; nothing new goes there.
    std::set<WorkerId> step;
    // The others cannot serve, so nothing is started meanwhile.
    bool disrupts = false;
    TimePoint step_since;
    bool loading = false;     // AssignLayers was sent
    std::uint64_t epoch = 0;  // the epoch of the last step; 0 before the first
    AssignLayers message;     // what was sent, with each worker's own layers
    TimePoint sent_at;
};

// PipelineParts has workers that hold layers, and the links between them.
struct PipelineParts {
    std::vector<PipelineNode> nodes;
    std::vector<PipelineEdge> edges;
};

// Returns the tokens/s that leave the coordinator.
double total_flow(const std::vector<spec::LinkFlow>& flows);
std::string layers_text(LayerRange layers);  // for example "layers 0-3"
// Returns where each of these workers is in the list, by worker id. The coordinator stands for
// itself.
std::map<std::int32_t, std::int32_t> index_of(const std::vector<WorkerId>& ids);

// Placements has the placement in force and the one on its way: the router over what all workers
// hold, the flows that the plan gives its links, and which workers are closed to new requests
// meanwhile. It counts its changes, so that what is derived of it is derived anew when version()
// has risen.
class Placements {
  public:
    Placements(const CoordinatorConfig& config, Fleet& fleet, RequestTable& requests,
               const LinkHealth& links)
        : config_(config), fleet_(fleet), requests_(requests), links_(links) {}

    bool usable(WorkerId worker, LayerRange layers) const;
    bool closed(WorkerId worker) const;  // says whether nothing new goes there
    bool in_router(WorkerId worker) const;
    bool link_down(WorkerId one, WorkerId other) const;
    bool link_down(const spec::LinkSpec& link) const;  // for links between worker ids, as measured
    bool plan_uses(WorkerId one, WorkerId other) const;  // whether the placement in force does
    PipelineGraph graph_of(PipelineParts parts) const;   // leaves out links that are down
    void make_router();                                  // makes it anew of the same parts
    PipelineParts final_parts() const;                   // the parts of the pending placement
    void know_ways();                                    // makes the router through the pending one
    PipelineParts present_parts() const;                 // the parts of all workers as they are now

    // Returns the placement on its way into force; core/coordinator/rollout.h puts it there step by
    // step.
    const std::optional<PendingPlacement>& pending() const { return pending_; }
    PendingPlacement& transition() { return *pending_; }
    void set_pending(PendingPlacement next);
    void drop_pending();
    // The worker is not here any more, and what was planned with it is dropped.
    void forget(WorkerId worker);
    // The workers of the pending placement's step have changed, or no step is under way any more.
    void note_step() { ++version_; }
    // The pending placement is in force from now on.
    void put_in_force();

    std::uint64_t version() const { return version_; }
    // Returns null before the first placement.
    RequestRouter* router() const { return router_.get(); }
    // Makes a router over these parts. On the way to a placement no flow is promised.
    void use_router(PipelineParts parts);
    std::uint64_t routers_made() const { return routers_made_; }
    const std::vector<spec::LinkFlow>& flows() const { return flows_; }
    // The links of workers that are about to have other layers have no flow any more.
    void drop_flows_of(const std::set<WorkerId>& step);
    double flow_in_force() const { return flow_in_force_; }
    // What is in force was planned for other speeds or links, so whatever can replace it is a gain.
    void expect_no_flow() { flow_in_force_ = 0; }
    std::uint64_t epoch() const { return epoch_in_force_; }
    std::uint64_t take_epoch() { return next_epoch_++; }
    // Somebody knows assignments up to this one, of a coordinator before this.
    void skip_epochs(std::uint64_t last) { next_epoch_ = std::max(next_epoch_, last + 1); }

  private:
    struct MeasuredLink {
        std::pair<std::int32_t, std::int32_t> ends;  // indices
        const spec::LinkSpec* measured = nullptr;    // of a worker that is here
    };
    std::vector<MeasuredLink> measured_links(const std::vector<WorkerId>& ids) const;

    const CoordinatorConfig& config_;
    Fleet& fleet_;
    RequestTable& requests_;
    const LinkHealth& links_;
    std::unique_ptr<RequestRouter> router_;
    PipelineParts router_parts_;  // what it was made from, links that are down included
    std::uint64_t router_seed_ = 0;
    std::uint64_t routers_made_ = 0;
    std::vector<spec::LinkFlow> flows_;  // of the placement in force; node indices are worker ids
    double flow_in_force_ = 0;           // tokens/s
    std::uint64_t epoch_in_force_ = 0;   // 0: nothing serves
    std::uint64_t next_epoch_ = 1;
    std::optional<PendingPlacement> pending_;
    std::uint64_t version_ = 0;
};

}  // namespace helix::core
