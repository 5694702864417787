#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/kv_demand.h"
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

// Why a migration is given up: for programs, and in words.
struct GivenUp {
    MigrationCause cause = MigrationCause::refused;
    std::string text;
};

// Requests that move to another pipeline while they run: which way, the copying, and how it ends.
//
// The coordinator owns the request: every token goes through it, and rows go out from nowhere else.
// So a migration takes effect by one decision here: from now on the next attempt runs on the new
// pipeline. Its first rows tell the new stages; what the old attempt may still say is ignored as
// after any other change of attempt. Nobody else takes part in the decision, so that no lost or
// late message makes two owners of one.
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
               PrefixRouting& prefixes, StageSender& stages, Speculation& speculation, Roles& roles,
               const Suspects& suspects)
        : config_(config),
          out_(out),
          fleet_(fleet),
          requests_(requests),
          placements_(placements),
          room_(room),
          demand_(demand),
          prefixes_(prefixes),
          stages_(stages),
          speculation_(speculation),
          roles_(roles),
          suspects_(suspects) {}

    void on(TimePoint now, const MoveRequest& event);
    std::string why_not_at(const RequestState& state, const Stage& stage,
                           MigrationReason reason) const;
    // The router's choice among the paths that it can move to now; empty: there is none.
    Path other_path(TimePoint now, const RequestState& state);
    // False, and nothing happens, where it cannot. Else it ends with MigrationEnded.
    bool begin_migration(TimePoint now, RequestState& state, const Path& path,
                         MigrationReason reason);
    // Hand-overs, or the others, that copy into or out of it, and how many may.
    std::int32_t migrations_at(WorkerId worker, bool handovers_only) const;
    void charge(RequestState& state);  // what it is expected to need, at every stage
    void on_reserved(TimePoint now, WorkerId worker, const KvReserved& message);
    void on_arrived(TimePoint now, WorkerId worker, const KvArrived& message);
    void on_refused(TimePoint now, WorkerId worker, const KvRefused& message);
    // In its last round, once all its rows are back, no more are sent: true, and the rest is
    // copied.
    bool hold(TimePoint now, RequestState& state);
    // The request leaves its pipeline, or goes on there.
    void drop_migration(RequestState& state, const GivenUp& why);
    void abort_migration(TimePoint now, RequestState& state, const GivenUp& why);
    // Those of requests that do not run there.
    void abort_migrations_to(TimePoint now, WorkerId worker, const GivenUp& why);
    // Gives up the least urgent one that takes pages at this worker; false when there is none.
    bool give_up_move_to(TimePoint now, WorkerId worker);
    // Those that go over the link between these two.
    void fail_migrations_over(TimePoint now, WorkerId one, WorkerId other);
    void end_late_migrations(TimePoint now);

    // It runs, has its first token and is not on its way already.
    bool movable(const RequestState& state) const { return why_unmovable(state).empty(); }
    bool moves_now(const RequestState& state) const {  // and has not failed to lately
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
    const MigrationCounts& counts() const { return counts_; }  // that ended
    // What is wrong with the moves under way, in words; empty: nothing is.
    std::string check() const;
    // Workers that are charged for a pipeline that is only moved to, each as often as that is so.
    std::size_t extra_charges() const;

  private:
    std::string check(const RequestState& request) const;
    std::string why_unmovable(const RequestState& state) const;
    // Why it cannot move there now; empty: it can. path: of the router's graph.
    std::string why_not_to(const RequestState& state, const Path& path,
                           MigrationReason reason) const;
    // What the pages need from worker to worker, if nothing else goes there; 0: not known. held:
    // they go at once, as fast as the link is.
    Duration time_to_copy(WorkerId from, WorkerId to, std::int64_t pages, bool held) const;
    // The same for all that a round of this move copies, and for what other moves' rounds copy from
    // the same workers, which may go before it.
    Duration time_to_copy(const Migration& move) const;
    void charge_move(const RequestState& state);  // the new pipeline's workers, besides
    void reserve(TimePoint now, RequestState& state);
    RequestState* moving_as(const SequenceKey& key);  // null: no request moves as this attempt
    std::vector<KvSpan> spans_to_send(const RequestState& state, bool last) const;
    void copy_more(TimePoint now, RequestState& state);
    void send_round(TimePoint now, RequestState& state, const std::vector<KvSpan>& spans);
    void commit(TimePoint now, RequestState& state);
    void send_first_rows(TimePoint now, RequestState& state);  // of an attempt that moved
    // These workers let it fail, or did not answer.
    void fail_migration(TimePoint now, RequestState& state, const std::vector<WorkerId>& by,
                        const GivenUp& why);

    const CoordinatorConfig& config_;
    Outbox& out_;
    Fleet& fleet_;
    RequestTable& requests_;
    const Placements& placements_;
    const Room& room_;
    const KvDemand& demand_;
    PrefixRouting& prefixes_;
    StageSender& stages_;
    Speculation& speculation_;
    Roles& roles_;
    const Suspects& suspects_;
    std::set<RequestId> migrating_;
    MigrationCounts counts_;
};

}  // namespace helix::core
