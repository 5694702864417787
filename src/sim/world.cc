#include "sim/world.h"

#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/random.h"
#include "core/describe.h"
#include "core/invariants.h"

namespace helix::sim {
namespace {

constexpr double kTickSeconds = 0.1;
constexpr double kRowHeaderBytes = 64;

std::int32_t vertex(core::WorkerId id) {
    return static_cast<std::int32_t>(id.value);
}

void check_sound(const std::string& broken) {
    if (!broken.empty()) LOG_ERROR("invariant broken: {}", broken);
    CHECK(broken.empty());
}

}  // namespace

struct World::Machine {
    core::WorkerId id;
    spec::NodeSpec node;
    std::int64_t kv_pages = 0;
    std::uint64_t incarnation = 1;
    bool alive = true;
    std::unique_ptr<core::Worker> worker;
    std::unique_ptr<SimEngine> engine;
    std::map<std::uint64_t, ToyRows> buffers;
    std::uint64_t next_buffer = 1;
};

World::World(const WorldConfig& config, Plan plan, const spec::CostModel& cost)
    : config_(config), plan_(std::move(plan)), cost_(cost), coordinator_(config.coordinator) {
    schedule_ticks();
}
World::~World() = default;

void World::schedule_ticks() {
    at(now_ + base::from_seconds(kTickSeconds), [this] {
        coordinator_event(core::CoordinatorTick{});
        for (auto& [id, machine] : machines_) {
            if (machine->alive) worker_event(id, machine->incarnation, core::WorkerTick{});
        }
        schedule_ticks();
    });
}

void World::at(core::TimePoint when, std::function<void()> what) {
    events_.emplace(std::make_pair(when, next_event_++), std::move(what));
}

// ---- the cast
// -------------------------------------------------------------------------------------

core::WorkerId World::add_worker(const spec::NodeSpec& node, std::int64_t kv_pages) {
    const core::WorkerId id{static_cast<std::uint32_t>(machines_.size())};
    auto machine = std::make_unique<Machine>();
    machine->id = id;
    machine->node = node;
    machine->kv_pages = kv_pages;
    machine->incarnation = 0;
    machine->alive = false;
    machines_.emplace(id, std::move(machine));
    rejoin(id);
    return id;
}

void World::rejoin(core::WorkerId id) {
    Machine& machine = *machines_.at(id);
    CHECK(!machine.alive);
    ++machine.incarnation;
    machine.alive = true;
    machine.worker = std::make_unique<core::Worker>(id, config_.worker);
    machine.engine = std::make_unique<SimEngine>(config_.worker.block_size, config_.vocab);
    machine.buffers.clear();
    core::WorkerJoined joined;
    joined.worker = id;
    joined.incarnation = machine.incarnation;
    joined.node = machine.node;
    for (const auto& [other, peer] : machines_) {
        if (other == id) continue;
        joined.links.push_back(
            {vertex(id), vertex(other), config_.link_bytes_per_s, config_.link_latency_s});
        joined.links.push_back(
            {vertex(other), vertex(id), config_.link_bytes_per_s, config_.link_latency_s});
    }
    joined.links.push_back(
        {spec::kCoordinator, vertex(id), config_.link_bytes_per_s, config_.link_latency_s});
    joined.links.push_back(
        {vertex(id), spec::kCoordinator, config_.link_bytes_per_s, config_.link_latency_s});
    coordinator_event(joined);
}

void World::kill(core::WorkerId id) {
    Machine& machine = *machines_.at(id);
    CHECK(machine.alive);
    machine.alive = false;
    machine.worker.reset();
    coordinator_event(core::WorkerLost{id, "died"});
}

core::RequestId World::submit(core::Request request) {
    request.id = {next_request_++};
    Outcome outcome;
    outcome.submitted_at = now_;
    outcomes_.emplace(request.id, outcome);
    ++open_;
    const core::RequestId id = request.id;
    coordinator_event(core::Submitted{std::move(request)});
    return id;
}

void World::cancel(core::RequestId id) {
    coordinator_event(core::Ended{id, core::FinishReason::cancelled});
}

const core::Worker* World::worker(core::WorkerId id) const {
    return machines_.at(id)->worker.get();
}

std::int64_t World::pages_in_use() const {
    std::int64_t pages = 0;
    for (const core::WorkerView& worker : coordinator_.view().workers) pages += worker.used_pages;
    return pages;
}

// ---- time
// -----------------------------------------------------------------------------------------

void World::run_for(double seconds) {
    const core::TimePoint end = now_ + base::from_seconds(seconds);
    while (!events_.empty() && events_.begin()->first.first <= end) {
        auto event = events_.extract(events_.begin());
        now_ = event.key().first;
        digest_ = base::hash_pair(digest_, static_cast<std::uint64_t>(now_.ns));
        event.mapped()();
    }
    now_ = end;
}

bool World::run_until_idle(double max_seconds) {
    const core::TimePoint end = now_ + base::from_seconds(max_seconds);
    while (open_ > 0 && now_ < end) run_for(kTickSeconds);
    return open_ == 0;
}

void World::trace(const std::string& who, const std::string& what) const {
    if (trace_)
        trace_(fmt::format("{:9.4f} {:<2} {}", (now_ - core::TimePoint{}).seconds(), who, what));
}

// ---- stepping the cores
// ---------------------------------------------------------------------------

void World::coordinator_event(const core::CoordinatorEvent& event) {
    std::vector<core::CoordinatorAction> actions;
    coordinator_.step(now_, event, actions);
    if (config_.check_invariants) check_sound(core::broken_invariant(coordinator_));
    for (const core::CoordinatorAction& action : actions) {
        trace("c", core::describe(action));
        perform(action);
    }
}

void World::worker_event(core::WorkerId id, std::uint64_t incarnation,
                         const core::WorkerEvent& event) {
    Machine& machine = *machines_.at(id);
    if (!machine.alive || machine.incarnation != incarnation) return;  // died on the way
    std::vector<core::WorkerAction> actions;
    machine.worker->step(now_, event, actions);
    if (config_.check_invariants) check_sound(core::broken_invariant(*machine.worker));
    for (const core::WorkerAction& action : actions) {
        trace("w" + std::to_string(id.value), core::describe(action));
        perform(machine, action);
    }
}

void World::send(std::int32_t from, std::int32_t to, double bytes, std::function<void()> deliver) {
    core::TimePoint& free = link_free_[{from, to}];
    const core::TimePoint start = std::max(now_, free);
    free = start + base::from_seconds(bytes / config_.link_bytes_per_s);
    at(free + base::from_seconds(config_.link_latency_s), std::move(deliver));
}

// ---- what the coordinator asks for
// ----------------------------------------------------------------

void World::perform(const core::CoordinatorAction& action) {
    if (const auto* out = std::get_if<core::SendToWorker>(&action)) {
        const Machine& machine = *machines_.at(out->worker);
        const std::uint64_t incarnation = machine.incarnation;
        send(spec::kCoordinator, vertex(out->worker), kRowHeaderBytes,
             [this, id = out->worker, incarnation, message = out->message] {
                 worker_event(id, incarnation, core::MessageArrived{message});
             });
    } else if (const auto* token = std::get_if<core::StreamToken>(&action)) {
        Outcome& outcome = outcomes_.at(token->id);
        CHECK(outcome.accepted && !outcome.ended);
        CHECK(token->index == static_cast<std::int32_t>(outcome.tokens.size()));
        if (outcome.tokens.empty()) outcome.first_token_at = now_;
        outcome.tokens.push_back(token->token.token);
        digest_ = base::hash_pair(digest_, static_cast<std::uint64_t>(token->token.token));
    } else if (const auto* end = std::get_if<core::FinishRequest>(&action)) {
        Outcome& outcome = outcomes_.at(end->id);
        CHECK(!outcome.ended);
        outcome.ended = true;
        outcome.reason = end->reason;
        outcome.error = end->error;
        outcome.ended_at = now_;
        --open_;
    } else if (const auto* no = std::get_if<core::RejectRequest>(&action)) {
        Outcome& outcome = outcomes_.at(no->id);
        CHECK(!outcome.ended && !outcome.accepted);
        outcome.ended = outcome.rejected = true;
        outcome.error = no->message;
        --open_;
    } else if (const auto* accepted = std::get_if<core::AcceptRequest>(&action)) {
        outcomes_.at(accepted->id).accepted = true;
    } else if (const auto* routed = std::get_if<core::RequestRouted>(&action)) {
        outcomes_.at(routed->id).pipelines.push_back(routed->pipeline);
    } else if (const auto* plan = std::get_if<core::PlanCluster>(&action)) {
        at(now_ + base::from_ms(10),
           [this, request = *plan] { coordinator_event(plan_(request)); });
    }  // Report is for people; the trace has it
}

// ---- what a worker asks for
// -----------------------------------------------------------------------

void World::perform(Machine& machine, const core::WorkerAction& action) {
    const core::WorkerId id = machine.id;
    const std::uint64_t incarnation = machine.incarnation;
    if (const auto* batch = std::get_if<core::RunBatch>(&action)) {
        run_batch(machine, batch->plan);
    } else if (const auto* peer = std::get_if<core::SendToPeer>(&action)) {
        send_rows(machine, *peer);
    } else if (const auto* out = std::get_if<core::SendToCoordinator>(&action)) {
        send(vertex(id), spec::kCoordinator, kRowHeaderBytes,
             [this, id, incarnation, message = out->message] {
                 const Machine& sender = *machines_.at(id);
                 if (!sender.alive || sender.incarnation != incarnation) return;
                 coordinator_event(core::FromWorker{id, message});
             });
    } else if (const auto* load = std::get_if<core::LoadLayers>(&action)) {
        const std::int64_t pages = load->layers.empty() ? 0 : machine.kv_pages;
        machine.engine->load(load->layers, pages);
        at(now_ + base::from_seconds(config_.load_s), [this, id, incarnation, l = *load, pages] {
            worker_event(id, incarnation, core::LayersLoaded{l.epoch, pages});
        });
    } else if (const auto* release = std::get_if<core::ReleaseBuffer>(&action)) {
        CHECK(machine.buffers.erase(release->buffer) == 1);
    }  // ConnectPeers: every machine reaches every other
}

void World::run_batch(Machine& machine, const core::BatchPlan& plan) {
    SimEngine::Outcome outcome = machine.engine->run(plan, machine.buffers);
    const core::Duration took = base::from_seconds(batch_seconds(plan, machine.node, cost_));
    machine.buffers[plan.id] = std::move(outcome.output);
    at(now_ + took, [this, id = machine.id, incarnation = machine.incarnation, batch = plan.id,
                     tokens = std::move(outcome.tokens), took] {
        worker_event(id, incarnation, core::BatchFinished{batch, tokens, took});
    });
}

void World::send_rows(Machine& machine, const core::SendToPeer& action) {
    core::StageInputs inputs = action.inputs;
    ToyRows rows;
    for (core::StageInput& input : inputs.inputs) {
        const ToyRows& source = machine.buffers.at(input.payload.buffer);
        const auto first = source.begin() + input.payload.first_row;
        const auto at_row = static_cast<std::uint32_t>(rows.size());
        rows.insert(rows.end(), first, first + input.payload.rows);
        input.payload.first_row = at_row;
    }
    const double bytes = static_cast<double>(rows.size()) * config_.activation_bytes +
                         kRowHeaderBytes * static_cast<double>(inputs.inputs.size());
    const std::uint64_t incarnation = machines_.at(action.peer)->incarnation;
    send(vertex(machine.id), vertex(action.peer), bytes,
         [this, to = action.peer, incarnation, inputs = std::move(inputs), rows = std::move(rows)] {
             deliver_rows(to, incarnation, inputs, rows);
         });
}

void World::deliver_rows(core::WorkerId to, std::uint64_t incarnation, core::StageInputs inputs,
                         ToyRows rows) {
    Machine& machine = *machines_.at(to);
    if (!machine.alive || machine.incarnation != incarnation) return;
    const std::uint64_t buffer = machine.next_buffer++;
    machine.buffers[buffer] = std::move(rows);
    for (core::StageInput& input : inputs.inputs) input.payload.buffer = buffer;
    worker_event(to, incarnation, core::MessageArrived{std::move(inputs)});
}

}  // namespace helix::sim
