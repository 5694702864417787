#include "sim/cluster/sim_cluster.h"

#include <memory>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/overloaded.h"
#include "base/planted_bug.h"
#include "base/prefetch.h"
#include "core/invariants.h"

namespace helix::sim {

SimCluster::SimCluster(const SimClusterConfig& config, VirtualClock& clock, Compute& compute,
                       Carrier& carrier, ClusterDriver& driver)
    : config_(config),
      clock_(clock),
      compute_(compute),
      carrier_(carrier),
      driver_(driver),
      coordinator_(config.coordinator) {
    carrier_.set_receiver([this](SimMessage&& message) { arrive(std::move(message)); });
    carrier_.set_expecter([this](const SimMessage& message, int step) { expect(message, step); });
}

// ---- machines
// -------------------------------------------------------------------------------------

void SimCluster::add(SimMachine& machine) {
    machine.id = core::WorkerId{static_cast<std::uint32_t>(machines_.size())};
    machines_.push_back(&machine);
}

void SimCluster::start(SimMachine& machine) {
    CHECK(!machine.alive());
    ++machine.incarnation;
    machine.worker = std::make_unique<core::Worker>(machine.id, config_.worker);
    compute_.start(machine);
}

void SimCluster::stop(SimMachine& machine) {
    machine.worker.reset();
    machine.welcome = false;
    machine.inbox.clear();
    compute_.stop(machine);
}

void SimCluster::resume(SimMachine& machine) {
    for (const auto& what : std::exchange(machine.inbox, {})) what();
}

void SimCluster::tick_workers() {
    for (const SimMachine* machine : machines_) {
        if (machine->welcome && machine->pauses == 0) {
            tell(*machine, machine->incarnation, core::WorkerTick{});
        }
    }
}

void SimCluster::kill_coordinator(const core::CoordinatorConfig& next) {
    coordinator_up_ = false;
    ++term_;
    coordinator_ = core::Coordinator(next);
}

// ---- coordinators that were replaced
// ------------------------------------------------------------------------

void SimCluster::replace_coordinator(const core::CoordinatorConfig& next) {
    Former former{std::move(coordinator_), Former::State::stands_still, {}, {}, {}};
    for (const SimMachine* machine : machines_) {
        if (machine->session != 0) former.sessions.emplace(machine->id, machine->session);
    }
    formers_.emplace(term_, std::move(former));
    kill_coordinator(next);
}

void SimCluster::bring_back(std::uint64_t term) {
    Former& former = formers_.at(term);
    if (former.state != Former::State::stands_still) return;
    former.state = Former::State::acts;
    for (const auto& [worker, session] : former.sessions) former.last_heard[worker] = clock_.now();
    for (SimMessage& message : std::exchange(former.inbox, {})) {
        arrive_at_former(former, std::move(message));
    }
}

void SimCluster::stop_former(std::uint64_t term) {
    Former& former = formers_.at(term);
    former.state = Former::State::stopped;
    former.inbox.clear();
}

void SimCluster::tick_formers(double silent_limit_s) {
    for (auto& [term, former] : formers_) {
        if (former.state != Former::State::acts) continue;
        std::vector<core::WorkerId> silent;
        for (const auto& [worker, heard] : former.last_heard) {
            const bool late =
                silent_limit_s > 0 && (clock_.now() - heard).seconds() > silent_limit_s;
            if (late) silent.push_back(worker);
        }
        for (const core::WorkerId worker : silent) {
            former.sessions.erase(worker);
            former.last_heard.erase(worker);
            tell_former(term, core::WorkerLost{worker, "stopped answering"});
        }
        tell_former(term, core::CoordinatorTick{});
    }
}

void SimCluster::arrive_at_former(Former& former, SimMessage message) {
    if (former.state == Former::State::stands_still) {
        former.inbox.push_back(std::move(message));
        return;
    }
    const auto session = former.sessions.find(message.worker);
    if (session == former.sessions.end() || session->second != message.incarnation) return;
    former.last_heard[message.worker] = clock_.now();
    auto& said = std::get<core::CoordinatorMessage>(message.content);
    tell_former(message.term, core::FromWorker{message.worker, std::move(said)});
}

// Its draft model is silent.
void SimCluster::tell_former(std::uint64_t term, const core::CoordinatorEvent& event) {
    Former& former = formers_.at(term);
    if (former.state != Former::State::acts) return;
    std::vector<core::CoordinatorAction> actions;
    former.coordinator.step(clock_.now(), event, actions);
    if (config_.check_invariants) driver_.check(core::broken_invariant(former.coordinator));
    for (core::CoordinatorAction& action : actions) {
        driver_.former_does(term, action);
        if (auto* send = std::get_if<core::SendToWorker>(&action)) {
            SimMachine& machine = *machines_[send->worker.value];
            const auto session = former.sessions.find(machine.id);
            if (session == former.sessions.end()) continue;
            carrier_.send({machine.id,
                           session->second,
                           term,
                           std::move(send->message),
                           spec::kCoordinator,
                           machine.vertex,
                           {}});
        } else if (auto* cut = std::get_if<core::CutOffWorker>(&action)) {
            former.sessions.erase(cut->worker);
            former.last_heard.erase(cut->worker);
        } else if (auto* question = std::get_if<core::PlanCluster>(&action)) {
            clock_.after(config_.plan_s.value_or(0), [this, term, asked = std::move(*question)] {
                tell_former(term, driver_.plan(asked));
            });
        }
    }
}

// ---- steps
// ----------------------------------------------------------------------------------------

void SimCluster::tell(const core::CoordinatorEvent& event) {
    if (!coordinator_up_) return;
    driver_.before_step(event);
    std::vector<core::CoordinatorAction> actions = std::move(spare_coordinator_actions_);
    if (config_.on_step) config_.on_step(true);
    coordinator_.step(clock_.now(), event, actions);
    if (config_.on_step) config_.on_step(false);
    if (config_.check_invariants) driver_.check(core::broken_invariant(coordinator_));
    for (core::CoordinatorAction& action : actions) {
        driver_.asked(action);
        std::visit([this](auto& one) { carry_out(std::move(one)); }, action);
    }
    actions.clear();
    spare_coordinator_actions_ = std::move(actions);
    driver_.after_step(event);
}

void SimCluster::tell(const SimMachine& which, std::uint64_t incarnation,
                      const core::WorkerEvent& event) {
    SimMachine& machine = *machines_[which.id.value];
    if (!machine.alive() || machine.incarnation != incarnation) return;  // died on the way
    if (machine.pauses > 0) {
        machine.inbox.emplace_back(
            [this, &machine, incarnation, event] { tell(machine, incarnation, event); });
        return;
    }
    std::vector<core::WorkerAction> actions = std::move(spare_worker_actions_);
    machine.worker->step(clock_.now(), event, actions);
    if (config_.check_invariants) driver_.check(core::broken_invariant(*machine.worker));
    for (core::WorkerAction& action : actions) {
        driver_.asked(machine, action);
        std::visit([&](auto& one) { carry_out(machine, std::move(one)); }, action);
    }
    actions.clear();
    spare_worker_actions_ = std::move(actions);
}

void SimCluster::arrive(SimMessage&& message) {
    SimMachine& machine = *machines_[message.worker.value];
    if (auto* said = std::get_if<core::CoordinatorMessage>(&message.content)) {
        const auto former = formers_.find(message.term);
        if (former != formers_.end() && former->second.state != Former::State::stopped) {
            return arrive_at_former(former->second, std::move(message));
        }
        if (!coordinator_up_ || !driver_.hears(machine, message)) return;
        return tell(core::FromWorker{machine.id, std::move(*said)});
    }
    std::uint64_t incarnation = message.incarnation;
    if (message.from == spec::kCoordinator && !is_led_by(machine, message.term)) return;
    auto& content = std::get<core::WorkerMessage>(message.content);
    if (message.from != spec::kCoordinator) {
        if (!driver_.takes(machine, message)) return;
        incarnation = machine.incarnation;  // it listens where the one before did
        const std::uint64_t buffer = compute_.keep(machine, std::move(message.payload));
        std::visit(base::Overloaded{
                       [&](core::StageInputs& inputs) {
                           for (core::StageInput& one : inputs.inputs) one.payload.buffer = buffer;
                       },
                       [&](core::KvBlocks& blocks) { blocks.payload.buffer = buffer; },
                       [](base::OneOf<core::AssignLayers, core::FreeSequences, core::ForkSequences,
                                      core::SwapSequences, core::ReserveKv, core::SendKv> auto&) {
                           CHECK(false);  // only the coordinator says these
                       },
                   },
                   content);
    }
    tell(machine, incarnation, core::MessageArrived{std::move(content)});
}

// Rows will arrive. What they touch is asked for in the steps in which it is found.
void SimCluster::expect(const SimMessage& message, int step) const {
    const auto* content = std::get_if<core::WorkerMessage>(&message.content);
    const auto* rows = content == nullptr ? nullptr : std::get_if<core::StageInputs>(content);
    const SimMachine& machine = *machines_[message.worker.value];
    if (rows == nullptr || !machine.alive()) return;
    if (step == 1) machine.worker->prefetch();
    machine.worker->prefetch(*rows, step);
}

void SimCluster::expect_batch(const SimMachine& machine, int step) {
    if (step == 0) return base::prefetch<sizeof(SimMachine)>(&machine);
    if (machine.alive()) machine.worker->prefetch_batch(step);
}

// A connection ends with the coordinator that it was to, or when the worker gives that one up.
bool SimCluster::is_led_by(const SimMachine& machine, std::uint64_t term) {
    if (machine.alone && formers_.contains(term)) return false;
    const bool unchecked = base::planted(base::PlantedBug::term_not_checked_by_worker);
    if (!machine.term.hears(term) && !unchecked) return false;
    if (term < machine.led_by) driver_.check("a worker was led by a coordinator that was replaced");
    return true;
}

// ---- what the coordinator asks for
// ----------------------------------------------------------------

void SimCluster::carry_out(core::SendToWorker action) {
    SimMachine& machine = *machines_[action.worker.value];
    driver_.sends(machine, action.message);
    carrier_.send({machine.id,
                   machine.session,
                   term_,
                   std::move(action.message),
                   spec::kCoordinator,
                   machine.vertex,
                   {}});
}

void SimCluster::carry_out(core::PlanCluster question) {
    if (!config_.plan_s.has_value()) return tell(driver_.plan(question));
    clock_.after(*config_.plan_s, [this, term = term_, asked = std::move(question)] {
        if (term == term_) tell(driver_.plan(asked));
    });
}

void SimCluster::carry_out(const core::ProposeDrafts& question) {
    std::optional<core::Drafted> answer = driver_.draft(question);
    if (!answer.has_value()) return;
    if (!config_.draft_s.has_value()) return tell(*answer);
    clock_.after(*config_.draft_s, [this, term = term_, drafted = std::move(*answer)] {
        if (term == term_) tell(drafted);
    });
}

// ---- what a worker asks for
// -----------------------------------------------------------------------

// Every machine reaches every other.
void SimCluster::carry_out(SimMachine& /*machine*/, const core::ConnectPeers& /*action*/) {}

void SimCluster::carry_out(SimMachine& machine, const core::LoadLayers& action) {
    const Compute::Loading loading = compute_.load(machine, action);
    if (!loading.seconds.has_value()) return tell(machine, machine.incarnation, loading.loaded);
    clock_.after(*loading.seconds,
                 [this, &machine, incarnation = machine.incarnation, loaded = loading.loaded] {
                     tell(machine, incarnation, loaded);
                 });
}

void SimCluster::carry_out(SimMachine& machine, const core::RunBatch& action) {
    if (!driver_.begins_batch(machine, action.plan)) return;
    Compute::Run run = compute_.run(machine, action.plan);
    machine.running = std::move(run.finished);
    const base::TimePoint end = clock_.now() + machine.running.took;
    const auto ended = [this, &machine, incarnation = machine.incarnation] {
        driver_.batch_ended(machine);
        if (machine.incarnation != incarnation) return;
        tell(machine, incarnation, std::exchange(machine.running, {}));
    };
    clock_.at(end + run.unseen, ended,
              {[](const void* whom, std::uint32_t /*which*/, int step) {
                   expect_batch(*static_cast<const SimMachine*>(whom), step);
               },
               &machine, 0});
    driver_.batch_begun(machine, action.plan, end);
}

void SimCluster::carry_out(SimMachine& machine, core::SendToPeer action) {
    const SimMachine& to = *machines_[action.peer.value];
    Rows payload;
    std::uint32_t row = 0;
    for (core::StageInput& input : action.inputs.inputs) {
        compute_.append(machine, input.payload, payload);
        input.payload.first_row = row;
        row += input.payload.rows;
    }
    carrier_.send({to.id, to.incarnation, to.term.highest(),
                   core::WorkerMessage{std::move(action.inputs)}, machine.vertex, to.vertex,
                   std::move(payload)});
}

void SimCluster::carry_out(SimMachine& machine, core::SendToCoordinator action) {
    if (!driver_.says(machine, action.message)) return;
    carrier_.send({machine.id,
                   machine.incarnation,
                   machine.term.highest(),
                   std::move(action.message),
                   machine.vertex,
                   spec::kCoordinator,
                   {}});
}

void SimCluster::carry_out(SimMachine& machine, const core::ReleaseBuffer& action) {
    if (!compute_.release(machine, action.buffer)) {
        driver_.check("released a buffer that is not there");
    }
}

void SimCluster::carry_out(SimMachine& machine, core::ExportKv action) {
    const double seconds = compute_.export_s(machine, *machines_[action.to.value], action);
    Rows content = compute_.read(machine, action.pages);
    clock_.after(seconds, [this, &machine, incarnation = machine.incarnation,
                           asked = std::move(action), read = std::move(content)] {
        if (!machine.alive() || machine.incarnation != incarnation) return;
        end_export(machine, asked, read);
    });
}

void SimCluster::end_export(SimMachine& machine, const core::ExportKv& action, Rows content) {
    if (compute_.read(machine, action.pages) != content) {
        driver_.check("pages of KV were written while they were sent");
    }
    const SimMachine& to = *machines_[action.to.value];
    carrier_.send({to.id, to.incarnation, to.term.highest(), core::WorkerMessage{action.message},
                   machine.vertex, to.vertex, std::move(content)});
    tell(machine, machine.incarnation, core::KvExported{action.transfer});
}

void SimCluster::carry_out(SimMachine& machine, core::ImportKv action) {
    std::optional<Rows> content = compute_.select(machine, action);
    if (!content.has_value()) return driver_.check("KV of another number of pages came");
    const std::optional<double> seconds = compute_.import_s();
    if (!seconds.has_value()) {
        compute_.write(machine, action.pages, *content);
        return tell(machine, machine.incarnation, core::KvImported{action.transfer});
    }
    clock_.after(*seconds, [this, &machine, incarnation = machine.incarnation,
                            asked = std::move(action), written = std::move(*content)] {
        if (!machine.alive() || machine.incarnation != incarnation) return;
        compute_.write(machine, asked.pages, written);
        tell(machine, incarnation, core::KvImported{asked.transfer});
    });
}

void SimCluster::carry_out(SimMachine& machine, const core::WakeAt& action) {
    clock_.at(action.at, [this, &machine, incarnation = machine.incarnation] {
        tell(machine, incarnation, core::WorkerTick{});
    });
}

}  // namespace helix::sim
