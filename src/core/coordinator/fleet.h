#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/backoff.h"
#include "base/check.h"
#include "base/id_map.h"
#include "core/coordinator/slowdown.h"
#include "core/kv/kv_estimate.h"
#include "core/protocol/coordinator_events.h"
#include "core/protocol/messages.h"
#include "core/routing/request_router.h"
#include "spec/cluster_spec.h"

namespace helix::core {

struct WorkerState {
    WorkerJoined joined;
    LayerRange layers;                 // the layers that it was told to hold
    std::uint64_t assigned_epoch = 0;  // the last AssignLayers sent; 0 = none yet
    bool ready = false;                // it has loaded those layers
    // The layers that it had loaded when it joined, until it is told to hold others.
    LayerRange kept_layers;
    bool gone = false;  // it is being taken out and is sent nothing any more
    // It could not load, and is left out of plans until it joins anew.
    bool failed = false;
    bool draining = false;      // nothing new goes there (DrainWorker)
    bool remove = false;        // it is dismissed when it holds nothing
    bool needed = false;        // it is not known yet whether the others can do without it
    bool replaced = false;      // a placement without it was found
    bool drained = false;       // WorkerDrained was said
    TimePoint drain_since;      // when its drain was asked for, or it was closed
    std::string drain_refused;  // why it could not be drained when last asked
    std::string kv_format;      // the format of the layers that it has loaded
    double kv_page_bytes = 0;   // as in LayersReady
    double kv_bytes_per_s = 0;
    std::int32_t moves_failed = 0;  // moves to it that failed in a row
    base::Backoff takes_again;      // its pause before requests move to it again
    KvEstimate kv;
    std::int64_t swap_total = 0;  // pages in host memory
    std::int64_t swap_used = 0;   // at most, by swapped requests
    LayersReady said;             // the last one that counted
    WorkerReport last_report;
    SlowdownWatch slowness;
    TimePoint reported_at;
};

// Fleet lists the workers that are here, by rising id. What decides which requests they can hold
// (layers, readiness, memory, drains) is changed by the methods of this class alone, which count
// these changes: whatever is derived of it is derived anew when version() has risen.
class Fleet {
  public:
    using Map = std::map<WorkerId, WorkerState>;

    Fleet() = default;
    Fleet(const Fleet&) = delete;
    Fleet& operator=(const Fleet&) = delete;
    ~Fleet() = default;

    Map::iterator find(WorkerId id) {
        ++touched_;
        const Map::iterator* it = index_.find(id.value);
        return it == nullptr ? workers_.end() : *it;
    }
    Map::const_iterator find(WorkerId id) const {
        const Map::iterator* it = index_.find(id.value);
        return it == nullptr ? workers_.end() : Map::const_iterator(*it);
    }
    WorkerState& at(WorkerId id) {
        const auto it = find(id);
        CHECK(it != workers_.end());
        return it->second;
    }
    const WorkerState& at(WorkerId id) const {
        const auto it = find(id);
        CHECK(it != workers_.end());
        return it->second;
    }
    bool contains(WorkerId id) const { return index_.find(id.value) != nullptr; }
    std::size_t size() const { return workers_.size(); }
    Map::iterator begin() {
        ++touched_;
        return workers_.begin();
    }
    Map::iterator end() { return workers_.end(); }
    Map::const_iterator begin() const { return workers_.begin(); }
    Map::const_iterator end() const { return workers_.end(); }
    const std::string& name(WorkerId id) const { return at(id).joined.node.name; }

    std::uint64_t version() const { return version_; }
    // Rises whenever somebody may have changed anything of a worker, its memory included: while it
    // stands, nobody has.
    std::uint64_t touched() const { return version_ + touched_; }

    // Returns false for an incarnation that is older than the newest of this worker that ever
    // joined.
    bool is_newest(WorkerId id, std::uint64_t incarnation);
    // Adds a worker that holds nothing yet.
    void add(WorkerState worker);
    void remove(WorkerId id);
    // The worker is told to hold these layers, and what it had before is of no use from now on.
    void assign(WorkerId id, LayerRange layers);
    void loaded(WorkerId id, const LayersReady& message);
    void could_not_load(WorkerId id);
    void set_draining(WorkerId id, bool draining);
    // closed says whether the others serve without the drained workers, to which then nothing new
    // goes. waits_for is the request that the others could not hold, which keeps the drained ones
    // open.
    void close_drained(bool closed, std::optional<RequestId> waits_for);
    bool drained_closed() const { return drained_closed_; }
    std::optional<RequestId> drain_waits_for() const { return drain_waits_for_; }

    // Says whether there is a worker that does not do everything.
    bool any_roles() const { return any_roles_; }
    bool has_role(WorkerId id, spec::NodeRole role) const;
    // Returns the KV pages that one request can have there, whose first rows leave the watermark
    // free.
    std::int64_t most_pages(WorkerId id) const;
    WorkerLoad load_of(WorkerId id) const;
    // Says whether the worker may take moved requests: it has not failed to lately.
    bool takes_moves(TimePoint now, WorkerId id) const;
    // The pauses after failed moves to workers are over (core/coordinator/failed_moves.h).
    void forget_failed_moves();
    // Returns what is wrong with the KV charges, in words, or nothing if they add up.
    std::string check() const;

  private:
    void find_roles();

    Map workers_;
    base::IdMap<Map::iterator> index_;  // finds one in no more time than in a fleet of a few
    std::map<WorkerId, std::uint64_t> incarnations_;
    std::uint64_t version_ = 0;
    std::uint64_t touched_ = 0;
    bool any_roles_ = false;
    bool drained_closed_ = false;
    std::optional<RequestId> drain_waits_for_;
};

}  // namespace helix::core
