#include "sim/faults/faulty_cluster.h"

#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/random.h"
#include "core/invariants.h"
#include "core/protocol/describe.h"
#include "sim/faults/faulty_machine.h"

namespace helix::sim {
namespace {

constexpr double kTickSeconds = 0.1;
// A request that could be handed over is, after the longest pause between tries.
constexpr double kHandoverSeconds = 5;

}  // namespace

FaultyCluster::FaultyCluster(const FaultyClusterConfig& config, Plan plan,
                             const spec::CostModel& cost)
    : config_(config),
      plan_(std::move(plan)),
      cost_(cost),
      coordinator_(config.coordinator),
      network_(config.fault_seed, config.link_latency_s, config.link_bytes_per_s),
      drafts_(config.coordinator.n_layers, config.vocab, config.draft_right),
      choices_(base::hash_pair(config.fault_seed, 0x30feU)),
      lies_(base::hash_pair(config.fault_seed, 0x11e5U)) {
    after(kTickSeconds, [this] { tick(); });
}
FaultyCluster::~FaultyCluster() = default;

core::RequestId FaultyCluster::submit(core::Request request, std::int32_t poison_at) {
    request.id = {next_request_++};
    if (outcomes_.contains(request.id)) {
        check_sound("a request got the number of another");
        return request.id;
    }
    Outcome outcome;
    outcome.submitted_at = now_;
    outcome.prompt_tokens = static_cast<std::int32_t>(request.prompt.size());
    outcome.is_group = request.is_group();
    outcome.has_beams = request.beam.has_value();
    outcome.n = request.n;
    outcome.poison_at = poison_at;
    Outcome& kept = outcomes_.emplace(request.id, outcome).first->second;
    ++open_;
    drafts_.begin(request);
    if (watch_ != nullptr) watch_->submitted(now_, request);
    const core::RequestId id = request.id;
    if (!coordinator_up_) {
        probes_.hit(Probe::submitted_to_nobody);
        cut_off(id, kept);
        return id;
    }
    coordinator_event(core::Submitted{std::move(request)});
    return id;
}

void FaultyCluster::cancel(core::RequestId id) {
    const Outcome& outcome = outcomes_.at(id);
    if (!outcome.ended) {
        probes_.hit(outcome.pipelines.empty() ? Probe::cancelled_while_waiting
                                              : Probe::cancelled_while_running);
        if (watch_ != nullptr) watch_->cancelled(now_, id);
    }
    coordinator_event(core::Ended{id, core::FinishReason::cancelled});
}

const core::Worker* FaultyCluster::worker(core::WorkerId id) const {
    return machines_.at(id)->worker.get();
}

std::int64_t FaultyCluster::pages_in_use() const {
    std::int64_t pages = 0;
    for (const core::WorkerView& worker : coordinator_.view().workers) pages += worker.used_pages;
    return pages;
}

std::string FaultyCluster::leak() const {
    std::string found = core::held_when_idle(coordinator_);
    if (found.empty()) found = moves_.left_open();
    for (const auto& [id, machine] : machines_) {
        if (!found.empty()) return found;
        const std::string who = "worker " + std::to_string(id.value);
        if (!machine->alive || !machine->welcome) return who + " is not in the cluster";
        for (const core::WorkerView& view : coordinator_.view().workers) {
            if (view.worker == id && view.incarnation != machine->incarnation) {
                return who + ": the coordinator believes in another incarnation";
            }
        }
        found = core::held_when_idle(*machine->worker);
        if (found.empty()) found = core::ledgers_differ(coordinator_, id, *machine->worker);
        if (found.empty() && !machine->buffers.empty()) found = "activations were never released";
        if (!found.empty()) found = who + ": " + found;
    }
    return found;
}

void FaultCounts::add(const FaultCounts& other) {
    events += other.events;
    kills += other.kills;
    poisoned += other.poisoned;
    cuts += other.cuts;
    pauses += other.pauses;
    false_losses += other.false_losses;
    lost += other.lost;
    duplicated += other.duplicated;
    links_broken += other.links_broken;
    drains += other.drains;
    drained += other.drained;
    coordinator_kills += other.coordinator_kills;
    liars_cut_off += other.liars_cut_off;
    cut_off += other.cut_off;
    failovers += other.failovers;
    recomputed_tokens += other.recomputed_tokens;
    moves.add(other.moves);
}

FaultCounts FaultyCluster::counts() const {
    FaultCounts counts = counts_;
    counts.lost = network_.lost();
    counts.duplicated = network_.duplicated();
    counts.failovers += coordinator_.view().failovers;
    counts.moves = moves_.counts();
    return counts;
}

// ---- time
// -----------------------------------------------------------------------------------------

void FaultyCluster::at(core::TimePoint when, std::function<void()> what) {
    events_.emplace(std::make_pair(when, next_event_++), std::move(what));
}

void FaultyCluster::after(double seconds, std::function<void()> what) {
    at(now_ + base::from_seconds(seconds), std::move(what));
}

void FaultyCluster::run_for(double seconds) {
    const core::TimePoint end = now_ + base::from_seconds(seconds);
    while (!broken_ && !events_.empty() && events_.begin()->first.first <= end) {
        auto event = events_.extract(events_.begin());
        now_ = event.key().first;
        digest_ = base::hash_pair(digest_, static_cast<std::uint64_t>(now_.ns));
        ++counts_.events;
        event.mapped()();
    }
    if (!broken_) now_ = end;
}

bool FaultyCluster::run_until_idle(double max_seconds) {
    const core::TimePoint end = now_ + base::from_seconds(max_seconds);
    while (open_ > 0 && now_ < end && !broken_) run_for(kTickSeconds);
    return open_ == 0;
}

void FaultyCluster::tick() {
    lose_silent();
    coordinator_event(core::CoordinatorTick{});
    check_handovers();
    for (auto& [id, machine] : machines_) {
        if (machine->alive && machine->welcome && machine->pauses == 0) {
            worker_event(id, machine->incarnation, core::WorkerTick{});
        }
    }
    after(kTickSeconds, [this] { tick(); });
}

void FaultyCluster::check_handovers() {
    std::map<core::RequestId, core::TimePoint> due;
    for (const core::RequestId id : core::handovers_due(coordinator_)) {
        const auto before = handover_due_since_.find(id);
        const core::TimePoint since = before == handover_due_since_.end() ? now_ : before->second;
        if ((now_ - since).seconds() > kHandoverSeconds) {
            check_sound("request " + std::to_string(id.value) +
                        ": decodes where only prompts are computed although others have room");
        }
        due.emplace(id, since);
    }
    handover_due_since_ = std::move(due);
}

void FaultyCluster::trace(const std::string& who, const std::string& what) const {
    if (trace_)
        trace_(fmt::format("{:9.4f} {:<2} {}", (now_ - core::TimePoint{}).seconds(), who, what));
}

// ---- stepping the cores
// ---------------------------------------------------------------------------

void FaultyCluster::check_sound(const std::string& broken) {
    if (broken.empty() || broken_) return;
    broken_ = true;
    if (config_.on_broken) return config_.on_broken(broken);
    LOG_ERROR("invariant broken: {}", broken);
    CHECK(broken.empty());
}

void FaultyCluster::coordinator_event(const core::CoordinatorEvent& event) {
    if (!coordinator_up_) return;
    const auto* from_worker = std::get_if<core::FromWorker>(&event);
    if (from_worker != nullptr) {
        const auto* tokens = std::get_if<core::TokensProduced>(&from_worker->message);
        if (tokens != nullptr) probe_tokens(*tokens);
        probe_answer(from_worker->message);
    }
    const auto* move = std::get_if<core::MoveRequest>(&event);
    if (move != nullptr) moves_.ask(move->id);
    std::vector<core::CoordinatorAction> actions;
    coordinator_.step(now_, event, actions);
    if (config_.check_invariants) check_sound(core::broken_invariant(coordinator_));
    const bool reported =
        from_worker != nullptr && std::holds_alternative<core::WorkerReport>(from_worker->message);
    for (const core::CoordinatorAction& action : actions) {
        digest_ = base::hash_pair(digest_, action.index());
        const auto* send_to = std::get_if<core::SendToWorker>(&action);
        if (reported && send_to != nullptr &&
            std::holds_alternative<core::FreeSequences>(send_to->message)) {
            probes_.hit(Probe::stray_freed);
        }
        if (trace_) trace("c", core::describe(action));
        perform(action);
    }
    if (move != nullptr) check_sound(moves_.answered());
}

void FaultyCluster::worker_event(core::WorkerId id, std::uint64_t incarnation,
                                 const core::WorkerEvent& event) {
    Machine& machine = *machines_.at(id);
    if (!machine.alive || machine.incarnation != incarnation) return;  // died on the way
    if (machine.pauses > 0) {
        machine.inbox.emplace_back(
            [this, id, incarnation, event] { worker_event(id, incarnation, event); });
        return;
    }
    std::vector<core::WorkerAction> actions;
    machine.worker->step(now_, event, actions);
    if (config_.check_invariants) check_sound(core::broken_invariant(*machine.worker));
    for (const core::WorkerAction& action : actions) {
        digest_ = base::hash_pair(digest_, action.index());
        if (trace_) trace("w" + std::to_string(id.value), core::describe(action));
        perform(machine, action);
    }
}

}  // namespace helix::sim
