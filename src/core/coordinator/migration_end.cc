// This file has the end of a migration: the request is held, and then the move is committed or
// given up.

#include "core/coordinator/migrations.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/planted_bug.h"

namespace helix::core {
namespace {

// The reservation is confirmed this often within MigrationConfig::timeout, because workers take KV
// that they hear nothing of for orphaned.
constexpr std::int64_t kAskedInTimeout = 8;

// Returns the workers whose answers are missing.
std::vector<WorkerId> awaited(const Migration& move) {
    if (!move.unreserved.empty()) return move.unreserved;
    std::vector<WorkerId> ids;
    for (const Migration::Transfer& transfer : move.transfers) {
        const bool known = std::find(ids.begin(), ids.end(), transfer.to) != ids.end();
        if (!transfer.arrived && !known) ids.push_back(transfer.to);
    }
    return ids;
}

// Says whether no row is under way, and nothing that came back is left to be looked at.
bool all_back(const RequestState& state) {
    if (!state.group) return state.rows_going == 0;
    const std::vector<GroupMember>& members = state.group->members;
    return std::all_of(members.begin(), members.end(), [](const GroupMember& member) {
        return member.rows_going == 0 && member.top.empty();
    });
}

}  // namespace

// ---- held
// ----------------------------------------------------------------------------------------

bool Migrations::hold(TimePoint now, RequestState& state) {
    if (!state.migration || state.migration->phase != MigrationPhase::last_round) return false;
    if (state.migration->held_since || !all_back(state)) return true;
    // It would wait for the draft model's answer.
    if (state.drafting) state.drafting->asked = false;
    state.migration->held_since = now;
    const std::vector<KvSpan> rest = spans_to_send(state, true);
    const bool complete = std::all_of(rest.begin(), rest.end(), [&](const KvSpan& span) {
        return span.tokens <= span.first_block * config_.block_size;
    });
    if (complete) {
        commit(now, state);
    } else {
        send_round(now, state, rest);
    }
    return true;
}

// ---- committed
// -----------------------------------------------------------------------------------

void Migrations::commit(TimePoint now, RequestState& state) {
    const std::unique_ptr<Migration> move = std::move(state.migration);
    const RequestId id = state.request.id;
    migrating_.erase(id);
    ++counts_.of(move->begun_for, MigrationPhase::committed);
    // The old workers' prefix caches keep what the old pipeline has computed.
    prefixes_.remember_prefix(state, length(state) - 1);
    if (base::planted(base::PlantedBug::committed_by_both) && !state.group) {
        speculation_.send_decode(state, {});
    } else {
        stages_.to_stages(state, FreeSequences{stages_.keys_at_workers(state)});
    }
    // Rows of choices that have ended may still be under way.
    placements_.router()->on_ended(state.path, std::exchange(state.rows_going, 0));
    for (const Stage& stage : state.pipeline) {
        if (stage_at(move->pipeline, stage.worker) == nullptr)
            fleet_.at(stage.worker).kv.remove(id);
    }
    for (const Migration::Transfer& transfer : move->transfers) {
        if (transfer.is_local()) continue;
        fleet_.at(transfer.to).moves_failed = 0;
        fleet_.at(transfer.to).takes_again.clear();
    }
    state.attempt = move->attempt;
    state.pipeline = move->pipeline;
    state.path = move->path;
    state.prefix.cached = 0;  // the pages that it has now are its own
    charge(state);
    state.moved = true;
    state.moves_again.clear();
    state.last_progress = now;
    roles_.note_place(state);
    send_first_rows(now, state);
    out_.push(
        RequestRouted{id, state.pipeline, state.attempt, length(state) - 1, RouteReason::moved});
    out_.push(MigrationEnded{id, MigrationPhase::committed, MigrationCause::committed, "",
                             static_cast<std::int32_t>(move->round), move->tokens, move->pages,
                             now - move->began, now - *move->held_since, move->begun_for});
}

void Migrations::send_first_rows(TimePoint now, RequestState& state) {
    const std::vector<Token>& prompt = state.request.prompt;
    const auto begin = [&](const std::vector<Token>& output, std::int32_t sent) {
        SequenceStart start{state.pipeline, static_cast<std::int32_t>(prompt.size()),
                            stages_.sampling_of(state)};
        if (base::planted(base::PlantedBug::sampling_not_migrated)) ++start.sampling.seed;
        start.cached = prompt;
        start.cached.insert(start.cached.end(), output.begin(),
                            output.begin() + (sent - start.prompt_tokens));
        start.high_priority = is_high(state);
        start.timed = state.request.timed;
        start.forks = state.group != nullptr;
        return start;
    };
    if (state.group) {
        for (GroupMember& member : state.group->members) {
            member.parent = -1;
            SequenceStart start = begin(member.output, member.sent);
            stages_.send_member(now, state, member).start = std::move(start);
        }
        return;
    }
    SequenceStart start = begin(state.output, length(state) - 1);
    speculation_.send_decode(state, {}).start = std::move(start);
}

// ---- given up
// ------------------------------------------------------------------------------------

void Migrations::drop_migration(RequestState& state, const GivenUp& why) {
    const std::unique_ptr<Migration> move = std::move(state.migration);
    const RequestId id = state.request.id;
    migrating_.erase(id);
    ++counts_.of(move->begun_for, move->phase);
    const FreeSequences parcel{{{id, move->attempt}}};
    for (const Stage& stage : move->pipeline) {
        WorkerState& worker = fleet_.at(stage.worker);
        const Stage* old = stage_at(state.pipeline, stage.worker);
        if (old == nullptr) {
            worker.kv.remove(id);
        } else {
            worker.kv.set(id, room_.expected_pages(state, *old));
        }
        if (!worker.gone) out_.to_worker(stage.worker, parcel);
    }
    // What the old stages still have to send for this move, they need not send any more.
    for (const Stage& stage : state.pipeline) {
        if (stage_at(move->pipeline, stage.worker) != nullptr || fleet_.at(stage.worker).gone)
            continue;
        out_.to_worker(stage.worker, parcel);
    }
    const Duration held = move->held_since ? out_.now() - *move->held_since : Duration{};
    out_.push(MigrationEnded{id, move->phase, why.cause, why.text,
                             static_cast<std::int32_t>(move->round), move->tokens, move->pages,
                             out_.now() - move->began, held, move->begun_for});
    if (move->begun_for == MigrationReason::handover) roles_.note_handover_failed(state);
}

void Migrations::abort_migration(TimePoint now, RequestState& state, const GivenUp& why) {
    const bool held = is_held(state);
    drop_migration(state, why);
    if (!state.group) {
        if (held) speculation_.continue_decoding(now, state);
        return;
    }
    // Members that came back before the others were waiting for these.
    const auto prompt = static_cast<std::int32_t>(state.request.prompt.size());
    for (GroupMember& member : state.group->members) {
        const auto all = prompt + static_cast<std::int32_t>(member.output.size());
        if (member.rows_going == 0 && member.sent < all) stages_.send_member(now, state, member);
    }
}

void Migrations::fail_migration(TimePoint now, RequestState& state, const std::vector<WorkerId>& by,
                                const GivenUp& why) {
    const BalanceConfig& how = config_.balance;
    state.moves_again.failed(now, how.retry_first, how.retry_longest);
    for (const WorkerId id : by) {
        const auto it = fleet_.find(id);
        if (it == fleet_.end() || ++it->second.moves_failed < how.worker_failures) continue;
        it->second.takes_again.failed(now, how.retry_first, how.retry_longest);
    }
    abort_migration(now, state, why);
}

void Migrations::abort_migrations_to(TimePoint now, WorkerId worker, const GivenUp& why) {
    const std::set<RequestId> all = migrating_;
    for (const RequestId id : all) {
        RequestState& state = requests_.at(id);
        if (stage_at(state.migration->pipeline, worker) == nullptr) continue;
        if (stage_at(state.pipeline, worker) != nullptr) continue;
        abort_migration(now, state, why);
    }
}

bool Migrations::give_up_move_to(TimePoint now, WorkerId worker) {
    RequestState* last = nullptr;
    for (const RequestId id : migrating_) {
        RequestState& state = requests_.at(id);
        const auto& transfers = state.migration->transfers;
        const bool comes = std::any_of(
            transfers.begin(), transfers.end(),
            [&](const auto& transfer) { return transfer.to == worker && !transfer.is_local(); });
        if (!comes) continue;
        if (last == nullptr || queue_key(*last) < queue_key(state)) last = &state;
    }
    if (last == nullptr) return false;
    fail_migration(now, *last, {worker}, {MigrationCause::pages_needed, "others need the pages"});
    return true;
}

void Migrations::fail_migrations_over(TimePoint now, WorkerId one, WorkerId other) {
    const std::set<RequestId> moving = migrating_;
    for (const RequestId id : moving) {
        RequestState& state = requests_.at(id);
        const auto& transfers = state.migration->transfers;
        const auto over = std::find_if(transfers.begin(), transfers.end(),
                                       [&](const Migration::Transfer& transfer) {
                                           return (transfer.from == one && transfer.to == other) ||
                                                  (transfer.from == other && transfer.to == one);
                                       });
        const bool copies = over != transfers.end();
        if (!copies && !neighbours(state.migration->pipeline, one, other)) continue;
        fail_migration(now, state, {copies ? over->to : other},
                       {MigrationCause::link_broke, "the link between its workers broke"});
    }
}

void Migrations::end_late_migrations(TimePoint now) {
    const MigrationConfig& how = config_.migration;
    const std::set<RequestId> moving = migrating_;
    for (const RequestId id : moving) {
        RequestState& state = requests_.at(id);
        const Migration& move = *state.migration;
        if (move.held_since && now - *move.held_since > move.patience) {
            fail_migration(
                now, state, awaited(move),
                {MigrationCause::held_too_long, "the last of it did not arrive in time"});
        } else if (!move.held_since && now - move.heard > move.patience) {
            fail_migration(now, state, awaited(move),
                           {MigrationCause::unanswered, "a worker did not answer in time"});
        } else if (!move.held_since && (now - move.asked) * kAskedInTimeout >= how.timeout) {
            reserve(now, state);
        }
    }
}

// ---- invariants
// ----------------------------------------------------------------------------------

std::string Migrations::check() const {
    std::size_t moving = 0;
    for (const auto& [id, request] : requests_) {
        if (!request.migration) continue;
        ++moving;
        std::string broken = check(request);
        if (!broken.empty()) return broken;
    }
    return moving == migrating_.size() ? "" : "a request is listed as moving that does not";
}

std::string Migrations::check(const RequestState& request) const {
    const Migration& move = *request.migration;
    const std::string who = "request " + std::to_string(request.request.id.value);
    if (!request.running || request.swapped) return who + ": moves, but does not run";
    if (!migrating_.contains(request.request.id)) return who + ": moves, but is not listed";
    if (move.attempt <= request.attempt || move.attempt > request.last_attempt) {
        return who + ": moves as an attempt that is over";
    }
    const bool goes =
        request.group ? std::any_of(request.group->members.begin(), request.group->members.end(),
                                    [](const auto& m) { return m.rows_going > 0; })
                      : request.rows_going > 0;
    if (move.held_since && goes) return who + ": held with rows under way";
    if (move.held_since && move.phase != MigrationPhase::last_round) {
        return who + ": held before its last round";
    }
    std::int32_t next = 0;
    for (const Stage& stage : move.pipeline) {
        if (stage.layers.begin != next) return who + ": the stages that it moves to do not join";
        next = stage.layers.end;
        const auto worker = fleet_.find(stage.worker);
        if (worker == fleet_.end()) return who + ": moves to a lost worker";
        if (!worker->second.layers.contains(stage.layers)) {
            return who + ": moves to a worker that does not hold the layers";
        }
        if (worker->second.kv.charge_of(request.request.id).value_or(0) == 0) {
            return who + ": moves without a KV charge";
        }
    }
    if (next != config_.n_layers) return who + ": moves to a pipeline that does not end";
    std::int32_t layers = 0;
    for (const Migration::Transfer& transfer : move.transfers) {
        layers += transfer.layers.size();
        if (transfer.is_local()) continue;
        for (const WorkerId end : {transfer.from, transfer.to}) {
            const bool handovers = move.begun_for == MigrationReason::handover;
            if (migrations_at(end, handovers) > most_migrations(handovers)) {
                return "too many migrations at worker " + std::to_string(end.value);
            }
        }
    }
    const std::int32_t all = config_.kv_layers({0, config_.n_layers}).size();
    return layers == all ? "" : who + ": not all layers are copied, or some twice";
}

std::size_t Migrations::extra_charges() const {
    std::size_t count = 0;
    for (const RequestId id : migrating_) {
        const RequestState& request = *requests_.by_id(id);
        for (const Stage& stage : request.migration->pipeline) {
            count += stage_at(request.pipeline, stage.worker) == nullptr ? 1U : 0U;
        }
    }
    return count;
}

}  // namespace helix::core
