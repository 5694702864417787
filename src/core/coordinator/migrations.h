#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/kv_demand.h"
#include "core/coordinator/node_loads.h"
#include "core/coordinator/outbox.h"
#include "core/coordinator/placements.h"
#include "core/coordinator/prefix_routing.h"
#include "core/coordinator/request_table.h"
#include "core/coordinator/roles.h"
#include "core/coordinator/room.h"
#include "core/coordinator/speculation.h"
#include "core/coordinator/stage_sender.h"
#include "core/coordinator/suspects.h"
#include "core/protocol/cluster_view.h"

namespace helix::core {

// GivenUp says why a migration is given up: for programs, and in words.
struct GivenUp {
    MigrationCause cause = MigrationCause::refused;
    std::string text;
};

// Migrations has the requests that move to another pipeline while they run: which way they go, the
// copying, and how it ends.
//
// The coordinator owns the request: every token goes through it, and rows go out from nowhere else.
// So a migration takes effect by one decision here: from now on the next attempt runs on the new
// pipeline. Its first rows tell the new stages; what the old attempt may still say is ignored as
// after any other change of attempt. Nobody else takes part in the decision, so that no lost or
// late message makes two owners of one.
//
// A migration goes through these phases:
//
//   reserving   every stage of the new pipeline has pages for what comes (ReserveKv, KvReserved)
//   copying     in rounds, while the request decodes: the full blocks that no round has sent yet,
//               of each layer from its old holder to its new one (SendKv, KvArrived)
//   last_round  no row is sent any more; when all are back, what is left is copied
//   committed   the first row of the new attempt: the last token
//
// Until then the old pipeline has everything: whatever goes wrong, the request goes on there.
class Migrations {
  public:
    Migrations(const CoordinatorConfig& config, Outbox& out, Fleet& fleet, RequestTable& requests,
               const Placements& placements, const Room& room, const KvDemand& demand,
               NodeLoads& loads, PrefixRouting& prefixes, StageSender& stages,
               Speculation& speculation, Roles& roles, const Suspects& suspects)
        : config_(config),
          out_(out),
          fleet_(fleet),
          requests_(requests),
          placements_(placements),
          room_(room),
          demand_(demand),
          loads_(loads),
          prefixes_(prefixes),
          stages_(stages),
          speculation_(speculation),
          roles_(roles),
          suspects_(suspects) {}

    void on(TimePoint now, const MoveRequest& event);
    std::string why_not_at(const RequestState& state, const Stage& stage,
                           MigrationReason reason) const;
    // Returns the router's choice among the paths that the request can move to now; empty: there is
    // none.
    Path other_path(TimePoint now, const RequestState& state);
    // Returns false, and does nothing, where the request cannot move there. Otherwise the move has
    // begun and ends with MigrationEnded.
    bool begin_migration(TimePoint now, RequestState& state, const Path& path,
                         MigrationReason reason);
    // Returns how many moves copy into or out of the worker now: hand-overs, or all others.
    std::int32_t migrations_at(WorkerId worker, bool handovers_only) const;
    // Charges every stage with what the request is expected to need there.
    void charge(RequestState& state);
    void on_reserved(TimePoint now, WorkerId worker, const KvReserved& message);
    void on_arrived(TimePoint now, WorkerId worker, const KvArrived& message);
    void on_refused(TimePoint now, WorkerId worker, const KvRefused& message);
    // In the last round, once all of the request's rows are back, no more are sent: this returns
    // true, and the rest is copied.
    bool hold(TimePoint now, RequestState& state);
    // The first is for a request that leaves its pipeline; with the second it goes on there.
    void drop_migration(RequestState& state, const GivenUp& why);
    void abort_migration(TimePoint now, RequestState& state, const GivenUp& why);
    // Gives up the moves to this worker, except those of requests that run there already.
    void abort_migrations_to(TimePoint now, WorkerId worker, const GivenUp& why);
    // Gives up the least urgent one that takes pages at this worker; false when there is none.
    bool give_up_move_to(TimePoint now, WorkerId worker);
    // Gives up the moves that go over the link between these two workers.
    void fail_migrations_over(TimePoint now, WorkerId one, WorkerId other);
    void end_late_migrations(TimePoint now);

    // Says whether the request runs, has its first token and is not on its way already.
    bool movable(const RequestState& state) const { return why_unmovable(state).empty(); }
    // The same, if its moves have not failed lately.
    bool moves_now(const RequestState& state) const {
        return movable(state) && state.moves_again.may_try(out_.now());
    }
    static bool is_held(const RequestState& state) {
        return state.migration && state.migration->held_since;
    }
    std::int32_t most_migrations(bool handovers_only) const {
        return handovers_only ? config_.migration.handovers_per_worker
                              : config_.migration.per_worker;
    }
    const std::set<RequestId>& all() const { return migrating_; }
    const MigrationCounts& counts() const { return counts_; }  // moves that have ended
    // Returns what is wrong with the moves under way, in words, or nothing if all is right.
    std::string check() const;
    // Returns how many charges are for workers that a request only moves to; a worker counts once
    // for each such request.
    std::size_t extra_charges() const;

  private:
    std::string check(const RequestState& request) const;
    std::string why_unmovable(const RequestState& state) const;
    // Returns why the request cannot move there now; empty: it can. path is of the router's graph.
    std::string why_not_to(const RequestState& state, const Path& path,
                           MigrationReason reason) const;
    // Returns the time that the pages need from worker to worker if nothing else goes there; 0: it
    // is not known. held means that they go at once, as fast as the link is.
    Duration time_to_copy(WorkerId from, WorkerId to, std::int64_t pages, bool held) const;
    // Returns the time for all that a round of this move copies, together with what other moves'
    // rounds copy from the same workers, which may go before it.
    Duration time_to_copy(const Migration& move) const;
    // Returns the pages that the request is expected to need at a stage of its new pipeline.
    std::int64_t expected_pages(const RequestState& state, const Stage& stage) const;
    // Charges the workers of the new pipeline as well.
    void charge_move(const RequestState& state);
    void reserve(TimePoint now, RequestState& state);
    RequestState* moving_as(const SequenceKey& key);  // null: no request moves as this attempt
    std::vector<KvSpan> spans_to_send(const RequestState& state, bool last) const;
    void copy_more(TimePoint now, RequestState& state);
    void send_round(TimePoint now, RequestState& state, const std::vector<KvSpan>& spans);
    void commit(TimePoint now, RequestState& state);
    // Sends the first rows of an attempt that moved.
    void send_first_rows(TimePoint now, RequestState& state);
    // Gives the move up because these workers let it fail, or did not answer. They and the request
    // pause.
    void fail_migration(TimePoint now, RequestState& state, const std::vector<WorkerId>& by,
                        const GivenUp& why);

    const CoordinatorConfig& config_;
    Outbox& out_;
    Fleet& fleet_;
    RequestTable& requests_;
    const Placements& placements_;
    const Room& room_;
    const KvDemand& demand_;
    NodeLoads& loads_;
    PrefixRouting& prefixes_;
    StageSender& stages_;
    Speculation& speculation_;
    Roles& roles_;
    const Suspects& suspects_;
    std::set<RequestId> migrating_;
    MigrationCounts counts_;
};

}  // namespace helix::core
