#include "core/coordinator/migrations.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "base/check.h"
#include "core/protocol/migration_rate.h"

namespace helix::core {
namespace {

// So many blocks are reserved beyond what there is now, for what is decoded while the KV is copied.
constexpr std::int64_t kBlocksAhead = 8;

std::vector<Migration::Transfer> transfers_between(const Pipeline& from, const Pipeline& to,
                                                   const CoordinatorConfig& config) {
    std::vector<Migration::Transfer> transfers;
    for (const Stage& old : from) {
        for (const Stage& next : to) {
            const LayerRange both = config.kv_layers(intersect(old.layers, next.layers));
            if (!both.empty()) transfers.push_back({old.worker, next.worker, both});
        }
    }
    return transfers;
}

}  // namespace

// ---- whether and where to
// ------------------------------------------------------------------------

void Migrations::on(TimePoint now, const MoveRequest& event) {
    const auto refuse = [&](const std::string& why) {
        ++counts_.of(MigrationReason::asked, MigrationPhase::reserving);
        out_.push(
            MigrationEnded{event.id, MigrationPhase::reserving, MigrationCause::not_begun, why});
    };
    const auto it = requests_.find(event.id);
    if (it == requests_.end()) return refuse("there is no such request");
    RequestState& state = it->second;
    std::string why = why_unmovable(state);
    if (!why.empty()) return refuse(why);
    if (placements_.router() == nullptr) return refuse("no placement is in force");
    const Path path =
        event.to.empty() ? other_path(now, state) : placements_.router()->graph().path(event.to);
    if (event.to.empty() && path.empty()) return refuse("no other pipeline has room for it");
    why = why_not_to(state, path, MigrationReason::asked);
    if (!why.empty()) return refuse(why);
    CHECK(begin_migration(now, state, path, MigrationReason::asked));
}

std::string Migrations::why_unmovable(const RequestState& state) const {
    if (!config_.migration.enabled) return "migration is off";
    if (state.migration) return "it is on its way already";
    if (!state.running) return "it does not run";
    if (state.swapped) return "it is in host memory";
    if (is_suspect(state)) return "it runs alone";
    if (state.prompt_rows > 0) return "it has no token yet";
    if (state.group) {
        const auto& members = state.group->members;
        const bool begun = state.group->beams || std::none_of(members.begin(), members.end(),
                                                              [](const GroupMember& member) {
                                                                  return member.output.empty();
                                                              });
        return state.group->forked && begun ? "" : "it has no token yet";
    }
    return state.output.empty() ? "it has no token yet" : "";
}

std::int32_t Migrations::migrations_at(WorkerId worker, bool handovers_only) const {
    std::int32_t count = 0;
    for (const RequestId id : migrating_) {
        const Migration& move = *requests_.by_id(id)->migration;
        if ((move.begun_for == MigrationReason::handover) != handovers_only) continue;
        const auto& transfers = move.transfers;
        const bool here = std::any_of(
            transfers.begin(), transfers.end(), [&](const Migration::Transfer& transfer) {
                return !transfer.is_local() && (transfer.from == worker || transfer.to == worker);
            });
        count += here ? 1 : 0;
    }
    return count;
}

Duration Migrations::time_to_copy(WorkerId from, WorkerId to, std::int64_t pages, bool held) const {
    const WorkerState& source = fleet_.at(from);
    double measured = 0;
    for (const WorkerId end : {from, to}) {
        for (const spec::LinkSpec& link : fleet_.at(end).joined.links) {
            const bool ours = link.from == static_cast<std::int32_t>(from.value) &&
                              link.to == static_cast<std::int32_t>(to.value);
            if (ours && measured == 0) measured = link.bandwidth_bytes_per_s;
        }
    }
    if (held && measured <= 0) return {};
    const double rate = held ? measured : migration_rate(source.kv_bytes_per_s, measured);
    constexpr double kLongest = 1e6;
    return base::from_seconds(
        std::min(kLongest, static_cast<double>(pages) * source.kv_page_bytes / rate));
}

// A worker sends one message after the other, and first what a held request waits for. Workers send
// at the same time.
Duration Migrations::time_to_copy(const Migration& move) const {
    const bool held = move.held_since.has_value();
    std::map<WorkerId, Duration> times;
    for (const Migration::Transfer& transfer : move.transfers) {
        if (!transfer.is_local()) times[transfer.from];
    }
    for (const RequestId id : migrating_) {
        const Migration& other = *requests_.by_id(id)->migration;
        if (other.held_since.has_value() != held) continue;
        for (const Migration::Transfer& transfer : other.transfers) {
            const auto time = times.find(transfer.from);
            if (time == times.end() || transfer.is_local() || transfer.arrived) continue;
            time->second =
                time->second + time_to_copy(transfer.from, transfer.to, transfer.pages, held);
        }
    }
    Duration longest;
    for (const auto& [worker, time] : times) longest = std::max(longest, time);
    return longest;
}

std::string Migrations::why_not_at(const RequestState& state, const Stage& stage,
                                   MigrationReason reason) const {
    const auto who = [&] { return worker_text(stage.worker); };
    const auto found = fleet_.find(stage.worker);
    if (found != fleet_.end() && found->second.draining) return who() + " is being emptied";
    if (!suspects_.keeps_apart(state, stage.worker)) return who() + " runs one request alone";
    if (!placements_.usable(stage.worker, stage.layers)) return who() + " does not hold the layers";
    if (room_.only_prefills(stage.worker)) return who() + " only computes prompts";
    const WorkerState& worker = found->second;
    const BlockDemand full = KvDemand::of(state, demand_.blocks_needed(state, state.max_output));
    const std::int64_t most = demand_.most_pages(full, stage.layers);
    if (most > fleet_.most_pages(stage.worker)) return who() + " has too little KV memory";
    // At a worker that it runs on already, only what comes on top needs room.
    const std::int64_t has = worker.kv.charge_of(state.request.id).value_or(0);
    const std::int64_t more = expected_pages(state, stage) - has;
    if (more > 0 && !worker.kv.can_add(more, config_.policy.kv_high_water)) {
        return who() + " has no room";
    }
    for (const Stage& old : state.pipeline) {
        const LayerRange both = config_.kv_layers(intersect(old.layers, stage.layers));
        if (old.worker == stage.worker || both.empty()) continue;
        if (placements_.link_down(old.worker, stage.worker)) {
            return worker_text(old.worker) + " does not reach " + who();
        }
        if (worker.kv_format.empty() || worker.kv_format != fleet_.at(old.worker).kv_format) {
            return who() + " keeps its KV in another format than " + worker_text(old.worker);
        }
        const std::int64_t last = config_.migration.last_round_blocks + 1;
        const std::int64_t pages =
            std::min<std::int64_t>(last, demand_.blocks_held(state)) * both.size();
        if (time_to_copy(old.worker, stage.worker, pages, true) > config_.migration.hold_timeout) {
            return "the link from " + worker_text(old.worker) + " to " + who() + " is too slow";
        }
        for (const WorkerId end : {old.worker, stage.worker}) {
            const bool handovers_only = reason == MigrationReason::handover;
            if (migrations_at(end, handovers_only) >= most_migrations(handovers_only)) {
                return worker_text(end) + " takes part in other migrations";
            }
        }
    }
    return "";
}

std::string Migrations::why_not_to(const RequestState& state, const Path& path,
                                   MigrationReason reason) const {
    if (placements_.router() == nullptr || !placements_.router()->graph().is_path(path))
        return "there is no such way";
    const Pipeline to = placements_.router()->graph().pipeline(path);
    if (to == state.pipeline) return "it runs there";
    for (const Stage& stage : to) {
        const std::string why = why_not_at(state, stage, reason);
        if (!why.empty()) return why;
    }
    return "";
}

Path Migrations::other_path(TimePoint now, const RequestState& state) {
    const RoutedRequest request{state.request.id, now, length(state), state.request.priority};
    const auto ask = [&](const Stage* avoided) {
        const StageFits fits = [&](WorkerId worker, LayerRange layers) {
            if (avoided != nullptr && worker == avoided->worker) return false;
            if (stage_at(state.pipeline, worker) == nullptr && !fleet_.takes_moves(now, worker))
                return false;
            return why_not_at(state, {worker, layers}, MigrationReason::asked).empty();
        };
        return placements_.router()->route(request, fits, loads_.for_router());
    };
    Path path = ask(nullptr);
    if (!path.empty() && placements_.router()->graph().pipeline(path) != state.pipeline)
        return path;
    // The router would choose the present pipeline again, so it is asked what is left without one
    // of its stages.
    for (const Stage& stage : state.pipeline) {
        path = ask(&stage);
        if (!path.empty()) return path;
    }
    return {};
}

// ---- reserving
// -----------------------------------------------------------------------------------

bool Migrations::begin_migration(TimePoint now, RequestState& state, const Path& path,
                                 MigrationReason reason) {
    if (!movable(state) || !why_not_to(state, path, reason).empty()) return false;
    state.migration = std::make_unique<Migration>();
    Migration& move = *state.migration;
    move.begun_for = reason;
    move.attempt = ++state.last_attempt;
    move.path = path;
    move.pipeline = placements_.router()->graph().pipeline(path);
    move.transfers = transfers_between(state.pipeline, move.pipeline, config_);
    for (const Stage& stage : move.pipeline) move.unreserved.push_back(stage.worker);
    move.given_back = demand_.given_back(state);
    move.began = move.heard = now;
    move.patience = config_.migration.timeout;
    migrating_.insert(state.request.id);
    charge_move(state);
    reserve(now, state);
    return true;
}

std::int64_t Migrations::expected_pages(const RequestState& state, const Stage& stage) const {
    return demand_.pages(KvDemand::of(state, demand_.expected_blocks(state, 0)), stage.layers);
}

void Migrations::charge(RequestState& state) {
    for (const Stage& stage : state.pipeline) {
        fleet_.at(stage.worker).kv.set(state.request.id, room_.expected_pages(state, stage));
    }
    if (state.migration) charge_move(state);
}

// A worker of both pipelines has the KV of the layers that stay there only once.
void Migrations::charge_move(const RequestState& state) {
    for (const Stage& stage : state.migration->pipeline) {
        KvEstimate& kv = fleet_.at(stage.worker).kv;
        const std::int64_t pages = expected_pages(state, stage);
        const Stage* old = stage_at(state.pipeline, stage.worker);
        if (old != nullptr) {
            kv.set(state.request.id, std::max(pages, room_.expected_pages(state, *old)));
        } else if (kv.charge_of(state.request.id)) {
            kv.set(state.request.id, pages);
        } else {
            kv.add(state.request.id, pages);
        }
    }
}

// When the reservation is said again it asks for more where the request has grown, and confirms
// what there is.
void Migrations::reserve(TimePoint now, RequestState& state) {
    Migration& move = *state.migration;
    const std::int64_t has = demand_.blocks_held(state);
    const std::int64_t sequences = state.group ? state.group->sequences(state.request) : 1;
    const std::int64_t soon =
        std::min(demand_.expected_blocks(state, 0), has + kBlocksAhead * sequences);
    move.reserved_blocks = std::max({move.reserved_blocks, has, soon});
    move.asked = now;
    for (const Stage& stage : move.pipeline) {
        const ReserveKv message{{state.request.id, move.attempt},
                                config_.kv_layers(stage.layers),
                                move.reserved_blocks,
                                move.given_back};
        out_.to_worker(stage.worker, message);
    }
}

void Migrations::on_reserved(TimePoint now, WorkerId worker, const KvReserved& message) {
    RequestState* state = moving_as(message.key);
    if (state == nullptr) return;
    Migration& move = *state->migration;
    if (std::erase(move.unreserved, worker) == 0) return;
    move.heard = now;
    if (!move.unreserved.empty()) return;
    move.phase = MigrationPhase::copying;
    copy_more(now, *state);
}

RequestState* Migrations::moving_as(const SequenceKey& key) {
    const auto it = requests_.find(key.request);
    if (it == requests_.end() || !it->second.migration) return nullptr;
    return it->second.migration->attempt == key.attempt ? &it->second : nullptr;
}

// ---- copying
// -------------------------------------------------------------------------------------

// Returns what every stage has surely computed and no round has sent. Beams come and go while the
// request decodes, so before the last round only their prompt is sent, under the name of one of
// them.
std::vector<KvSpan> Migrations::spans_to_send(const RequestState& state, bool last) const {
    const Migration& move = *state.migration;
    std::vector<KvSpan> spans;
    const auto add = [&](std::uint32_t member, std::int32_t first, std::int32_t tokens) {
        const std::int32_t end = last ? tokens : tokens / config_.block_size * config_.block_size;
        if (last || end > first * config_.block_size) spans.push_back({member, first, end});
    };
    const auto sent_of = [&](std::uint32_t member) {
        const auto it = move.sent_blocks.find(member);
        return it == move.sent_blocks.end() ? 0 : it->second;
    };
    if (!state.group) {
        add(0, sent_of(0), length(state) - 1);
        return spans;
    }
    const std::vector<GroupMember>& members = state.group->members;
    if (state.group->beams) {
        const std::int32_t sent = move.sent_blocks.empty() ? 0 : move.sent_blocks.begin()->second;
        const auto prompt = static_cast<std::int32_t>(state.request.prompt.size());
        if (!last) {
            if (sent == 0) add(members.front().number, 0, prompt);
            return spans;
        }
        for (const GroupMember& member : members) add(member.number, sent, member.sent);
        return spans;
    }
    for (const GroupMember& member : members) {
        const auto sure = member.sent - static_cast<std::int32_t>(member.rows_going);
        add(member.number, sent_of(member.number), sure);
    }
    return spans;
}

// The round before is over, or this is the first.
void Migrations::copy_more(TimePoint now, RequestState& state) {
    Migration& move = *state.migration;
    const std::vector<KvSpan> spans = spans_to_send(state, false);
    std::int32_t most = 0;
    for (const KvSpan& span : spans) {
        most = std::max(most, span.tokens / config_.block_size - span.first_block);
    }
    const auto before_last = static_cast<std::uint32_t>(std::max(0, config_.migration.max_rounds));
    if (most > config_.migration.last_round_blocks && move.round < before_last) {
        return send_round(now, state, spans);
    }
    move.phase = MigrationPhase::last_round;
    hold(now, state);
}

void Migrations::send_round(TimePoint now, RequestState& state, const std::vector<KvSpan>& spans) {
    Migration& move = *state.migration;
    if (demand_.blocks_held(state) > move.reserved_blocks) reserve(now, state);
    ++move.round;
    const std::int64_t given_back = demand_.given_back(state);
    for (Migration::Transfer& transfer : move.transfers) {
        transfer.arrived = false;
        out_.push(SendToWorker{
            transfer.from,
            SendKv{state.request.id, state.attempt, move.attempt, move.round, transfer.to,
                   transfer.layers, spans, move.held_since.has_value(), given_back}});
    }
    // The full blocks of the prompt belong to all members.
    const auto prompt = static_cast<std::int32_t>(state.request.prompt.size());
    const std::int32_t shared = prompt / config_.block_size;
    std::int64_t blocks = 0;
    std::int64_t needless = 0;  // of these, in layers with a window
    for (const KvSpan& span : spans) {
        const bool first = &span == &spans.front();
        const std::int32_t from =
            first || !state.group ? span.first_block : std::max(span.first_block, shared);
        move.sent_blocks[span.member] = span.tokens / config_.block_size;
        if (span.tokens <= from * config_.block_size) continue;
        move.tokens += span.tokens - from * config_.block_size;
        blocks += demand_.blocks_for(span.tokens) - from;
        needless +=
            std::clamp<std::int64_t>(given_back - from, 0, demand_.blocks_for(span.tokens) - from);
    }
    for (Migration::Transfer& transfer : move.transfers) {
        transfer.pages =
            blocks * transfer.layers.size() - needless * config_.window.count(transfer.layers);
        if (!transfer.is_local()) move.pages += transfer.pages;
    }
    const Duration least =
        move.held_since ? config_.migration.hold_timeout : config_.migration.timeout;
    const double needed = time_to_copy(move).seconds() * config_.migration.time_factor;
    move.patience = std::max(least, base::from_seconds(needed));
}

void Migrations::on_arrived(TimePoint now, WorkerId worker, const KvArrived& message) {
    RequestState* state = moving_as(message.key);
    if (state == nullptr) return;
    Migration& move = *state->migration;
    if (move.round == 0 || message.round != move.round) return;  // it is of a round that is over
    const auto transfer = std::find_if(move.transfers.begin(), move.transfers.end(),
                                       [&](const Migration::Transfer& one) {
                                           return one.may_tell(worker, config_.window) &&
                                                  one.layers == message.layers && !one.arrived;
                                       });
    if (transfer == move.transfers.end()) return;  // it came twice
    transfer->arrived = true;
    move.heard = now;
    if (!std::all_of(move.transfers.begin(), move.transfers.end(),
                     [](const Migration::Transfer& one) { return one.arrived; })) {
        return;
    }
    if (move.held_since) return commit(now, *state);
    if (move.phase == MigrationPhase::copying) copy_more(now, *state);
}

void Migrations::on_refused(TimePoint now, WorkerId worker, const KvRefused& message) {
    RequestState* state = moving_as(message.key);
    if (state == nullptr) return;
    fail_migration(now, *state, {worker},
                   {MigrationCause::refused, worker_text(worker) + ": " + message.reason});
}

}  // namespace helix::core
