#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/backoff.h"
#include "core/coordinator/slowdown.h"
#include "core/kv/kv_estimate.h"
#include "core/protocol/coordinator_events.h"
#include "core/protocol/messages.h"
#include "core/routing/request_router.h"
#include "spec/cluster_spec.h"

namespace helix::core {

struct WorkerState {
    WorkerJoined joined;
    LayerRange layers;                 // assigned
    std::uint64_t assigned_epoch = 0;  // of the last AssignLayers sent; 0 = none yet
    bool ready = false;                // and answered
    bool gone = false;                 // being taken out: sent nothing any more
    bool failed = false;               // could not load: left out of plans until it joins anew
    bool draining = false;             // nothing new goes there (DrainWorker)
    bool remove = false;               // and it is dismissed when it holds nothing
    bool needed = false;               // it is not known yet whether the others can do without it
    bool replaced = false;             // a placement without it was found
    bool drained = false;              // WorkerDrained was said
    TimePoint drain_since;             // when it was told, or closed
    std::string drain_refused;         // why it was not drained when last asked
    std::string kv_format;             // of the layers it has loaded
    double kv_page_bytes = 0;          // as in LayersReady
    double kv_bytes_per_s = 0;
    std::int32_t moves_failed = 0;  // to it, in a row
    base::Backoff takes_again;      // requests that move
    KvEstimate kv;
    std::int64_t swap_total = 0;  // pages in host memory
    std::int64_t swap_used = 0;   // by swapped requests, at most
    LayersReady said;             // that counted last
    WorkerReport last_report;
    SlowdownWatch slowness;
    TimePoint reported_at;
};

// The workers that are here, by rising id. What decides which requests they can hold (layers,
// readiness, memory, drains) is changed by the methods of this class alone, which count these
// changes: whatever is derived of it is derived anew when version() has risen.
class Fleet {
  public:
    using Map = std::map<WorkerId, WorkerState>;

    Map::iterator find(WorkerId id) { return workers_.find(id); }
    Map::const_iterator find(WorkerId id) const { return workers_.find(id); }
    WorkerState& at(WorkerId id) { return workers_.at(id); }
    const WorkerState& at(WorkerId id) const { return workers_.at(id); }
    bool contains(WorkerId id) const { return workers_.contains(id); }
    std::size_t size() const { return workers_.size(); }
    Map::iterator begin() { return workers_.begin(); }
    Map::iterator end() { return workers_.end(); }
    Map::const_iterator begin() const { return workers_.begin(); }
    Map::const_iterator end() const { return workers_.end(); }
    const std::string& name(WorkerId id) const { return at(id).joined.node.name; }

    std::uint64_t version() const { return version_; }

    // False for one that is older than the newest of this worker that ever joined.
    bool is_newest(WorkerId id, std::uint64_t incarnation);
    // It holds nothing yet.
    void add(WorkerState worker);
    void remove(WorkerId id);
    // It is told to hold these layers; what it had before is of no use from now on.
    void assign(WorkerId id, LayerRange layers);
    void loaded(WorkerId id, const LayersReady& message);
    void could_not_load(WorkerId id);
    void set_draining(WorkerId id, bool draining);
    // Whether the others serve without those that are drained, to which then nothing new goes; and
    // the request that they could not hold, which keeps the drained ones open.
    void close_drained(bool closed, std::optional<RequestId> waits_for);
    bool drained_closed() const { return drained_closed_; }
    std::optional<RequestId> drain_waits_for() const { return drain_waits_for_; }

    // Is there a worker that does not do everything?
    bool any_roles() const { return any_roles_; }
    bool has_role(WorkerId id, spec::NodeRole role) const;
    // KV pages that one request can have there: its first rows leave the watermark free.
    std::int64_t most_pages(WorkerId id) const;
    WorkerLoad load_of(WorkerId id) const;
    // It has not failed to take moved requests lately.
    bool takes_moves(TimePoint now, WorkerId id) const;
    // The pauses after failed moves to workers are over (core/coordinator/failed_moves.h).
    void forget_failed_moves();
    // KV charges that do not add up, in words; empty: they do.
    std::string check() const;

  private:
    void find_roles();

    Map workers_;
    std::map<WorkerId, std::uint64_t> incarnations_;
    std::uint64_t version_ = 0;
    bool any_roles_ = false;
    bool drained_closed_ = false;
    std::optional<RequestId> drain_waits_for_;
};

}  // namespace helix::core
