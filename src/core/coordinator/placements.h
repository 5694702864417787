#pragma once

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

// A placement on its way into force, step by step (core/coordinator/transition_steps.h).
struct PendingPlacement {
    spec::Placement placement;
    std::vector<WorkerId> workers;  // node index -> worker
    std::vector<spec::LinkFlow> flows;
    std::vector<std::int64_t> kv_pages;   // expected, by node index; empty: not known
    std::set<WorkerId> changed;           // workers that do not hold their layers yet
    std::unique_ptr<RequestRouter> ways;  // once it is in force
    std::optional<RequestId> waits_for;   // before its first step: it could not hold that one

    // The step under way; a single one without workers where nothing changes.
    bool stepping = false;
    std::set<WorkerId> step;  // of changed: emptied, then loading; nothing new goes there
    bool disrupts = false;    // the others cannot serve: nothing is started meanwhile
    TimePoint step_since;
    bool loading = false;     // AssignLayers sent
    std::uint64_t epoch = 0;  // of the last step; 0 before the first
    AssignLayers message;     // what was sent, with each worker's own layers
    TimePoint sent_at;
};

// Workers that hold layers, and the ways between them.
struct PipelineParts {
    std::vector<PipelineNode> nodes;
    std::vector<PipelineEdge> edges;
};

// Tokens/s from the coordinator.
double total_flow(const std::vector<spec::LinkFlow>& flows);
std::string layers_text(LayerRange layers);  // "layers 0-3"
// Where each of these workers is in the list, by worker id; the coordinator is itself.
std::map<std::int32_t, std::int32_t> index_of(const std::vector<WorkerId>& ids);

// The placement in force and the one on its way: the router over what all hold, the flows that the
// plan gives its links, and which workers are closed to new requests meanwhile. It counts its
// changes, so that what is derived of it is derived anew when version() has risen.
class Placements {
  public:
    Placements(const CoordinatorConfig& config, Fleet& fleet, RequestTable& requests,
               const LinkHealth& links)
        : config_(config), fleet_(fleet), requests_(requests), links_(links) {}

    bool usable(WorkerId worker, LayerRange layers) const;
    bool closed(WorkerId worker) const;  // nothing new goes there
    bool in_router(WorkerId worker) const;
    bool link_down(WorkerId one, WorkerId other) const;
    bool link_down(const spec::LinkSpec& link) const;    // of worker ids, as measured
    bool plan_uses(WorkerId one, WorkerId other) const;  // the placement in force
    PipelineGraph graph_of(PipelineParts parts) const;   // without links that are down
    void make_router();                                  // from router_parts
    PipelineParts final_parts() const;                   // of the pending placement
    void know_ways();                                    // through it
    PipelineParts present_parts() const;                 // of all workers as they are now

    // The one on its way into force; step by step it is put there (core/coordinator/rollout.h).
    const std::optional<PendingPlacement>& pending() const { return pending_; }
    PendingPlacement& transition() { return *pending_; }
    void set_pending(PendingPlacement next);
    void drop_pending();
    // It is not here any more: what was planned with it is dropped.
    void forget(WorkerId worker);
    // The workers of its step are others now, or no step is under way.
    void note_step() { ++version_; }
    // It is in force from now on.
    void put_in_force();

    std::uint64_t version() const { return version_; }
    // Null before the first placement.
    RequestRouter* router() const { return router_.get(); }
    // A router over these. On the way to a placement no flow is promised.
    void use_router(PipelineParts parts);
    std::uint64_t routers_made() const { return routers_made_; }
    const std::vector<spec::LinkFlow>& flows() const { return flows_; }
    // Links of workers that are about to have other layers have no flow any more.
    void drop_flows_of(const std::set<WorkerId>& step);
    double flow_in_force() const { return flow_in_force_; }
    // What is in force was planned for other speeds or links: whatever can replace it is a gain.
    void expect_no_flow() { flow_in_force_ = 0; }
    std::uint64_t epoch() const { return epoch_in_force_; }
    std::uint64_t take_epoch() { return next_epoch_++; }

  private:
    std::map<std::pair<std::int32_t, std::int32_t>, spec::LinkSpec> measured_links(
        const std::vector<WorkerId>& ids) const;

    const CoordinatorConfig& config_;
    Fleet& fleet_;
    RequestTable& requests_;
    const LinkHealth& links_;
    std::unique_ptr<RequestRouter> router_;
    PipelineParts router_parts_;  // what it was made from, with links that are down
    std::uint64_t router_seed_ = 0;
    std::uint64_t routers_made_ = 0;
    std::vector<spec::LinkFlow> flows_;  // in force; node indices are worker ids
    double flow_in_force_ = 0;           // tokens/s
    std::uint64_t epoch_in_force_ = 0;   // 0 = not serving
    std::uint64_t next_epoch_ = 1;
    std::optional<PendingPlacement> pending_;
    std::uint64_t version_ = 0;
};

}  // namespace helix::core
