#include "sim/faults/faulty_cluster.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "base/check.h"
#include "base/log.h"
#include "base/random.h"
#include "core/invariants.h"
#include "core/protocol/describe.h"
#include "sim/faults/faulty_gateway.h"
#include "sim/faults/faulty_machine.h"

namespace helix::sim {
namespace {

constexpr double kTickSeconds = 0.1;
constexpr double kPlanSeconds = 0.01;
// A request that could be handed over is, after the longest pause between tries.
constexpr double kHandoverSeconds = 5;

}  // namespace

FaultyCluster::FaultyCluster(const FaultyClusterConfig& config, Plan plan,
                             const spec::CostModel& cost)
    : config_(config),
      plan_(std::move(plan)),
      carrier_({config.fault_seed, config.link_latency_s, config.link_bytes_per_s,
                config.activation_bytes},
               clock_, probes_),
      compute_({config.worker.block_size, config.vocab, config.swap_pages, config.kv_formats,
                config.kv_page_bytes, config.load_s, config.migration_bytes_per_s,
                config.link_bytes_per_s, config.coordinator.window},
               cost),
      cluster_({config.coordinator, config.worker, kPlanSeconds, config.draft_s,
                config.check_invariants, config.on_step},
               clock_, compute_, carrier_, *this),
      gateway_(base::hash_pair(config.fault_seed, 0x6a7eU)),
      gateway_net_(0, config.link_latency_s, config.link_bytes_per_s),
      ledger_(std::make_unique<GatewayLedger>()),
      formers_(base::hash_pair(config.fault_seed, 0xf0243U)),
      drafts_(config.coordinator.n_layers, config.vocab, config.draft_right,
              config.coordinator.window),
      choices_(base::hash_pair(config.fault_seed, 0x30feU)),
      lies_(base::hash_pair(config.fault_seed, 0x11e5U)) {
    after(kTickSeconds, [this] { tick(); });
    add_gateways();
}
FaultyCluster::~FaultyCluster() = default;

core::RequestId FaultyCluster::submit(core::Request request, std::int32_t poison_at) {
    request.id = {config_.gateways > 0 ? ++last_client_ : next_request_++};
    if (outcomes_.contains(request.id) && gateways_.empty()) {
        check("a request got the number of another");
        return request.id;
    }
    Outcome outcome;
    outcome.submitted_at = now();
    outcome.prompt_tokens = static_cast<std::int32_t>(request.prompt.size());
    outcome.is_group = request.is_group();
    outcome.has_beams = request.beam.has_value();
    outcome.n = request.n;
    outcome.poison_at = poison_at;
    const core::RequestId id = request.id;
    ++open_;
    if (watch_ != nullptr) watch_->submitted(now(), request);
    if (!cluster_.coordinator_up()) probes_.hit(Probe::submitted_to_nobody);
    if (!gateways_.empty()) {
        at_clients_.emplace(id, outcome);
        add_client(request);
        return id;
    }
    Outcome& kept = outcomes_.emplace(id, outcome).first->second;
    drafts_.begin(request);
    if (!cluster_.coordinator_up()) {
        cut_off(id, kept);
        return id;
    }
    cluster_.tell(core::Submitted{std::move(request)});
    return id;
}

void FaultyCluster::cancel(core::RequestId id) {
    const Outcome& outcome = outcomes().at(id);
    if (!outcome.ended) {
        probes_.hit(outcome.pipelines.empty() ? Probe::cancelled_while_waiting
                                              : Probe::cancelled_while_running);
        if (watch_ != nullptr) watch_->cancelled(now(), id);
        if (!gateways_.empty()) return leave(id);
    }
    if (!gateways_.empty()) return;
    cluster_.tell(core::Ended{id, core::FinishReason::cancelled});
}

const core::Worker* FaultyCluster::worker(core::WorkerId id) const {
    return machines_.at(id)->worker.get();
}

std::int64_t FaultyCluster::pages_in_use() const {
    std::int64_t pages = 0;
    for (const core::WorkerView& worker : coordinator().view().workers) pages += worker.used_pages;
    return pages;
}

std::string FaultyCluster::leak() const {
    std::string found = core::held_when_idle(coordinator());
    if (found.empty()) found = moves_.left_open();
    if (found.empty()) found = left_at_gateways();
    for (const auto& [id, machine] : machines_) {
        if (!found.empty()) return found;
        const std::string who = "worker " + std::to_string(id.value);
        if (!machine->alive() || !machine->welcome) return who + " is not in the cluster";
        for (const core::WorkerView& view : coordinator().view().workers) {
            if (view.worker == id && view.incarnation != machine->incarnation) {
                return who + ": the coordinator believes in another incarnation";
            }
        }
        found = core::held_when_idle(*machine->worker);
        if (found.empty()) found = core::ledgers_differ(coordinator(), id, *machine->worker);
        if (found.empty() && compute_.holds_buffers(*machine))
            found = "activations were never released";
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
    coordinators_replaced += other.coordinators_replaced;
    formers_stopped += other.formers_stopped;
    former_orders += other.former_orders;
    former_words += other.former_words;
    liars_cut_off += other.liars_cut_off;
    cut_off += other.cut_off;
    failovers += other.failovers;
    recomputed_tokens += other.recomputed_tokens;
    handed_over += other.handed_over;
    handed_over_again += other.handed_over_again;
    adopted += other.adopted;
    gateway_kills += other.gateway_kills;
    gateway_cuts += other.gateway_cuts;
    gateway_pauses += other.gateway_pauses;
    asked_again += other.asked_again;
    moves.add(other.moves);
}

FaultCounts FaultyCluster::counts() const {
    FaultCounts counts = counts_;
    counts.lost = carrier_.network().lost();
    counts.duplicated = carrier_.network().duplicated();
    counts.failovers += coordinator().view().failovers;
    counts.moves = moves_.counts();
    return counts;
}

// ---- time
// -----------------------------------------------------------------------------------------

void FaultyCluster::at(core::TimePoint when, std::function<void()> what) {
    clock_.at(when, std::move(what));
}

void FaultyCluster::after(double seconds, std::function<void()> what) {
    clock_.after(seconds, std::move(what));
}

void FaultyCluster::run_for(double seconds) {
    const core::TimePoint end = now() + base::from_seconds(seconds);
    while (!broken_ && !clock_.empty() && clock_.next() <= end) {
        digest_ = base::hash_pair(digest_, static_cast<std::uint64_t>(clock_.next().ns));
        ++counts_.events;
        clock_.run_next();
    }
    if (!broken_) clock_.pass_to(end);
}

bool FaultyCluster::run_until_idle(double max_seconds) {
    const core::TimePoint end = now() + base::from_seconds(max_seconds);
    while (open_ > 0 && now() < end && !broken_) run_for(kTickSeconds);
    return open_ == 0;
}

void FaultyCluster::tick() {
    lose_silent();
    cluster_.tell(core::CoordinatorTick{});
    cluster_.tick_formers(config_.silent_limit_s);
    check_handovers();
    cluster_.tick_workers();
    tick_gateways();
    after(kTickSeconds, [this] { tick(); });
}

void FaultyCluster::check_handovers() {
    std::map<core::RequestId, core::TimePoint> due;
    for (const core::RequestId id : core::handovers_due(coordinator())) {
        const auto before = handover_due_since_.find(id);
        const core::TimePoint since = before == handover_due_since_.end() ? now() : before->second;
        if ((now() - since).seconds() > kHandoverSeconds) {
            check("request " + std::to_string(id.value) +
                  ": decodes where only prompts are computed although others have room");
        }
        due.emplace(id, since);
    }
    handover_due_since_ = std::move(due);
}

void FaultyCluster::trace(const std::string& who, const std::string& what) const {
    if (trace_)
        trace_(fmt::format("{:9.4f} {:<2} {}", (now() - core::TimePoint{}).seconds(), who, what));
}

// ---- what is watched of the steps
// -----------------------------------------------------------------

void FaultyCluster::check(const std::string& broken) {
    if (broken.empty() || broken_) return;
    broken_ = true;
    if (config_.on_broken) return config_.on_broken(broken);
    LOG_ERROR("invariant broken: {}", broken);
    CHECK(broken.empty());
}

void FaultyCluster::before_step(const core::CoordinatorEvent& event) {
    reported_ = false;
    if (const auto* said = std::get_if<core::FromWorker>(&event)) {
        const auto* tokens = std::get_if<core::TokensProduced>(&said->message);
        if (tokens != nullptr) probe_tokens(*tokens);
        probe_answer(said->message);
        reported_ = std::holds_alternative<core::WorkerReport>(said->message);
    }
    if (const auto* move = std::get_if<core::MoveRequest>(&event)) moves_.ask(move->id);
}

void FaultyCluster::after_step(const core::CoordinatorEvent& event) {
    if (std::holds_alternative<core::MoveRequest>(event)) check(moves_.answered());
    flush(*ledger_, cluster_.term());
}

void FaultyCluster::asked(const core::CoordinatorAction& action) {
    digest_ = base::hash_pair(digest_, action.index());
    const auto* send_to = std::get_if<core::SendToWorker>(&action);
    if (reported_ && send_to != nullptr &&
        std::holds_alternative<core::FreeSequences>(send_to->message)) {
        probes_.hit(Probe::stray_freed);
    }
    if (trace_) trace("c", core::describe(action));
}

void FaultyCluster::asked(const SimMachine& machine, const core::WorkerAction& action) {
    digest_ = base::hash_pair(digest_, action.index());
    if (trace_) trace("w" + std::to_string(machine.id.value), core::describe(action));
}

void FaultyCluster::worker_event(core::WorkerId id, std::uint64_t incarnation,
                                 const core::WorkerEvent& event) {
    cluster_.tell(*machines_.at(id), incarnation, event);
}

}  // namespace helix::sim
