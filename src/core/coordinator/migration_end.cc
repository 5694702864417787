// How a migration ends: held, committed or given up (core/coordinator/migration.cc).

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/planted_bug.h"
#include "core/coordinator/coordinator_state.h"

namespace helix::core {

using base::planted;
using base::PlantedBug;

namespace {

// The reservation is confirmed so often within MigrationConfig::timeout: workers take KV that they
// hear nothing of for orphaned (L4).
constexpr std::int64_t kAskedInTimeout = 8;

// Whose answers are missing.
std::vector<WorkerId> awaited(const Migration& move) {
    if (!move.unreserved.empty()) return move.unreserved;
    std::vector<WorkerId> ids;
    for (const Migration::Transfer& transfer : move.transfers) {
        const bool known = std::find(ids.begin(), ids.end(), transfer.to) != ids.end();
        if (!transfer.arrived && !known) ids.push_back(transfer.to);
    }
    return ids;
}

// No row is under way, and nothing that came back is left to be looked at.
bool all_back(const RequestState& state) {
    if (!state.group) return state.rows_going == 0;
    const std::vector<GroupMember>& members = state.group->members;
    return std::all_of(members.begin(), members.end(), [](const GroupMember& member) {
        return member.rows_going == 0 && member.top.empty();
    });
}

}  // namespace

// ---- held
// -----------------------------------------------------------------------------------------

bool Coordinator::Impl::hold(TimePoint now, RequestState& state,
                             std::vector<CoordinatorAction>& actions) {
    if (!state.migration || state.migration->phase != MigrationPhase::last_round) return false;
    if (state.migration->held_since || !all_back(state)) return true;
    // It would wait for the draft model's answer.
    if (state.guessing) state.guessing->asked = false;
    state.migration->held_since = now;
    const std::vector<KvSpan> rest = spans_to_send(state, true);
    const bool complete = std::all_of(rest.begin(), rest.end(), [&](const KvSpan& span) {
        return span.tokens <= span.first_block * config.block_size;
    });
    if (complete) {
        commit(now, state, actions);
    } else {
        send_round(now, state, rest, actions);
    }
    return true;
}

// ---- committed
// ------------------------------------------------------------------------------------

void Coordinator::Impl::commit(TimePoint now, RequestState& state,
                               std::vector<CoordinatorAction>& actions) {
    const std::unique_ptr<Migration> move = std::move(state.migration);
    const RequestId id = state.request.id;
    migrating.erase(id);
    ++migrations.of(move->begun_for, MigrationPhase::committed);
    // What the old pipeline has computed its prefix caches keep.
    remember_prefix(state, length(state) - 1);
    if (planted(PlantedBug::committed_by_both) && !state.group) {
        send_decode(state, {});
    } else {
        to_stages(state, FreeSequences{keys_at_workers(state)}, actions);
    }
    // Of choices that have ended rows may still be under way.
    router->on_ended(state.path, std::exchange(state.rows_going, 0));
    for (const Stage& stage : state.pipeline) {
        if (stage_at(move->pipeline, stage.worker) == nullptr)
            workers.at(stage.worker).kv.remove(id);
    }
    for (const Migration::Transfer& transfer : move->transfers) {
        if (transfer.is_local()) continue;
        workers.at(transfer.to).moves_failed = 0;
        workers.at(transfer.to).takes_again.clear();
    }
    state.attempt = move->attempt;
    state.pipeline = move->pipeline;
    state.path = move->path;
    state.prefix.cached = 0;  // its pages are its own
    charge(state);
    state.moved = true;
    state.moves_again.clear();
    state.last_progress = now;
    note_place(state);
    send_first_rows(now, state);
    actions.push_back(RequestRouted{id, state.pipeline, state.attempt, length(state) - 1});
    actions.push_back(MigrationEnded{
        id, MigrationPhase::committed, "", static_cast<std::int32_t>(move->round), move->tokens,
        move->pages, now - move->began, now - *move->held_since, move->begun_for});
}

void Coordinator::Impl::send_first_rows(TimePoint now, RequestState& state) {
    const std::vector<Token>& prompt = state.request.prompt;
    const auto begin = [&](const std::vector<Token>& output, std::int32_t sent) {
        SequenceStart start{state.pipeline, static_cast<std::int32_t>(prompt.size()),
                            sampling_of(state)};
        if (planted(PlantedBug::sampling_not_migrated)) ++start.sampling.seed;
        start.cached = prompt;
        start.cached.insert(start.cached.end(), output.begin(),
                            output.begin() + (sent - start.prompt_tokens));
        start.high_priority = is_high(state);
        return start;
    };
    if (state.group) {
        for (GroupMember& member : state.group->members) {
            member.parent = -1;
            SequenceStart start = begin(member.output, member.sent);
            send_member(now, state, member).start = std::move(start);
        }
        return;
    }
    SequenceStart start = begin(state.output, length(state) - 1);
    send_decode(state, {}).start = std::move(start);
}

// ---- given up
// -------------------------------------------------------------------------------------

void Coordinator::Impl::drop_migration(RequestState& state, const std::string& reason,
                                       std::vector<CoordinatorAction>& actions) {
    const std::unique_ptr<Migration> move = std::move(state.migration);
    const RequestId id = state.request.id;
    migrating.erase(id);
    ++migrations.of(move->begun_for, move->phase);
    const FreeSequences parcel{{{id, move->attempt}}};
    for (const Stage& stage : move->pipeline) {
        WorkerState& worker = workers.at(stage.worker);
        const Stage* old = stage_at(state.pipeline, stage.worker);
        if (old == nullptr) {
            worker.kv.remove(id);
        } else {
            worker.kv.set(id, expected_pages(state, *old));
        }
        if (!worker.gone) actions.push_back(SendToWorker{stage.worker, parcel});
    }
    // What the others still have to send for it, they need not.
    for (const Stage& stage : state.pipeline) {
        if (stage_at(move->pipeline, stage.worker) != nullptr || workers.at(stage.worker).gone)
            continue;
        actions.push_back(SendToWorker{stage.worker, parcel});
    }
    const Duration held = move->held_since ? step_at - *move->held_since : Duration{};
    actions.push_back(MigrationEnded{id, move->phase, reason,
                                     static_cast<std::int32_t>(move->round), move->tokens,
                                     move->pages, step_at - move->began, held, move->begun_for});
    if (move->begun_for == MigrationReason::handover) note_handover_failed(state);
}

void Coordinator::Impl::abort_migration(TimePoint now, RequestState& state,
                                        const std::string& reason,
                                        std::vector<CoordinatorAction>& actions) {
    const bool held = is_held(state);
    drop_migration(state, reason, actions);
    if (!state.group) {
        if (held) continue_decoding(now, state, actions);
        return;
    }
    // Those that came back before the others were waiting for them.
    const auto prompt = static_cast<std::int32_t>(state.request.prompt.size());
    for (GroupMember& member : state.group->members) {
        const auto all = prompt + static_cast<std::int32_t>(member.output.size());
        if (member.rows_going == 0 && member.sent < all) send_member(now, state, member);
    }
}

void Coordinator::Impl::fail_migration(TimePoint now, RequestState& state,
                                       const std::vector<WorkerId>& by, const std::string& reason,
                                       std::vector<CoordinatorAction>& actions) {
    const BalanceConfig& how = config.balance;
    state.moves_again.failed(now, how.retry_first, how.retry_longest);
    for (const WorkerId id : by) {
        const auto it = workers.find(id);
        if (it == workers.end() || ++it->second.moves_failed < how.worker_failures) continue;
        it->second.takes_again.failed(now, how.retry_first, how.retry_longest);
    }
    abort_migration(now, state, reason, actions);
}

void Coordinator::Impl::forget_failed_moves() {
    for (auto& [id, worker] : workers) {
        worker.moves_failed = 0;
        worker.takes_again.clear();
    }
    for (auto& [id, state] : requests) state.moves_again.clear();
}

void Coordinator::Impl::abort_migrations_to(TimePoint now, WorkerId worker,
                                            const std::string& reason,
                                            std::vector<CoordinatorAction>& actions) {
    const std::set<RequestId> all = migrating;
    for (const RequestId id : all) {
        RequestState& state = requests.at(id);
        if (stage_at(state.migration->pipeline, worker) == nullptr) continue;
        if (stage_at(state.pipeline, worker) != nullptr) continue;
        abort_migration(now, state, reason, actions);
    }
}

bool Coordinator::Impl::give_up_move_to(TimePoint now, WorkerId worker,
                                        std::vector<CoordinatorAction>& actions) {
    RequestState* last = nullptr;
    for (const RequestId id : migrating) {
        RequestState& state = requests.at(id);
        const auto& transfers = state.migration->transfers;
        const bool comes = std::any_of(
            transfers.begin(), transfers.end(),
            [&](const auto& transfer) { return transfer.to == worker && !transfer.is_local(); });
        if (!comes) continue;
        if (last == nullptr || queue_key(*last) < queue_key(state)) last = &state;
    }
    if (last == nullptr) return false;
    fail_migration(now, *last, {worker}, "others need the pages", actions);
    return true;
}

void Coordinator::Impl::fail_migrations_over(TimePoint now, WorkerId one, WorkerId other,
                                             std::vector<CoordinatorAction>& actions) {
    const std::set<RequestId> moving = migrating;
    for (const RequestId id : moving) {
        RequestState& state = requests.at(id);
        const auto& transfers = state.migration->transfers;
        const auto over = std::find_if(transfers.begin(), transfers.end(),
                                       [&](const Migration::Transfer& transfer) {
                                           return (transfer.from == one && transfer.to == other) ||
                                                  (transfer.from == other && transfer.to == one);
                                       });
        const bool copies = over != transfers.end();
        if (!copies && !neighbours(state.migration->pipeline, one, other)) continue;
        fail_migration(now, state, {copies ? over->to : other},
                       "the link between its workers broke", actions);
    }
}

void Coordinator::Impl::end_late_migrations(TimePoint now,
                                            std::vector<CoordinatorAction>& actions) {
    const MigrationConfig& how = config.migration;
    const std::set<RequestId> moving = migrating;
    for (const RequestId id : moving) {
        RequestState& state = requests.at(id);
        const Migration& move = *state.migration;
        if (move.held_since && now - *move.held_since > move.patience) {
            fail_migration(now, state, awaited(move), "the last of it did not arrive in time",
                           actions);
        } else if (!move.held_since && now - move.heard > move.patience) {
            fail_migration(now, state, awaited(move), "a worker did not answer in time", actions);
        } else if (!move.held_since && (now - move.asked) * kAskedInTimeout >= how.timeout) {
            reserve(now, state, actions);
        }
    }
}

void Coordinator::Impl::restart(RequestState& state, std::vector<CoordinatorAction>& actions) {
    leave_pipeline(state, actions);
    enqueue(state);
}

}  // namespace helix::core
