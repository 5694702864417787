// Workers that come, go and stand still; sessions; faults that begin and end.

#include <fmt/format.h>

#include <memory>
#include <utility>
#include <variant>

#include "base/check.h"
#include "sim/faults/faulty_machine.h"

namespace helix::sim {

// ---- the cast
// -------------------------------------------------------------------------------------

core::WorkerId FaultyCluster::add_worker(const spec::NodeSpec& node, std::int64_t kv_pages) {
    auto machine = std::make_unique<Machine>();
    cluster_.add(*machine);
    const core::WorkerId id = machine->id;
    machine->vertex = vertex(id);
    machine->node = node;
    if (node.name.empty()) machine->node.name = fmt::format("w{}", id.value);
    machine->kv_pages = kv_pages;
    machines_.emplace(id, std::move(machine));
    start(*machines_.at(id));
    return id;
}

void FaultyCluster::kill(core::WorkerId id, double told_after_s) {
    Machine& machine = *machines_.at(id);
    CHECK(machine.alive());
    const std::uint64_t incarnation = machine.incarnation;
    ++counts_.kills;
    stop(machine);
    machine.term.forget();
    machine.led_by = 0;
    if (told_after_s > 0) {
        after(told_after_s, [this, id, incarnation] { end_session(id, incarnation, "died"); });
    } else {
        end_session(id, incarnation, "died");
    }
}

void FaultyCluster::rejoin(core::WorkerId id) {
    Machine& machine = *machines_.at(id);
    CHECK(!machine.alive());
    start(machine);
}

void FaultyCluster::stop(Machine& machine) {
    machine.alone = false;
    cluster_.stop(machine);
}

void FaultyCluster::start(Machine& machine) {
    cluster_.start(machine);
    hello(machine.id, machine.incarnation);
}

void FaultyCluster::pause(core::WorkerId id) {
    ++counts_.pauses;
    ++machines_.at(id)->pauses;
}

void FaultyCluster::resume(core::WorkerId id) {
    Machine& machine = *machines_.at(id);
    if (--machine.pauses > 0) return;
    if (machine.inbox.size() >= 3) probes_.hit(Probe::resumed_with_a_full_inbox);
    cluster_.resume(machine);
}

// ---- sessions
// -------------------------------------------------------------------------------------

void FaultyCluster::hello(core::WorkerId id, std::uint64_t incarnation) {
    Machine& machine = *machines_.at(id);
    if (!machine.alive() || machine.incarnation != incarnation) return;
    bool deaf = carrier_.network().is_cut(vertex(id), spec::kCoordinator) ||
                carrier_.network().is_cut(spec::kCoordinator, vertex(id)) || machine.pauses > 0;
    const bool taken = machine.session != 0 && !config_.hello_replaces;
    deaf = deaf || !cluster_.coordinator_up();
    if (!deaf && finds_former(machine.term)) {
        return after(kHelloRetrySeconds, [this, id, incarnation] { hello(id, incarnation); });
    }
    if (!deaf && taken) probes_.hit(Probe::hello_refused_while_old_one_counts);
    if (deaf || taken) {
        return after(kHelloRetrySeconds, [this, id, incarnation] { hello(id, incarnation); });
    }
    join(machine);
}

void FaultyCluster::join(Machine& machine) {
    if (machine.session != 0) {
        probes_.hit(Probe::restart_noticed_by_hello);
        note_lost(machine.id);
    }
    if (machine.falsely_lost) probes_.hit(Probe::rejoined_after_false_loss);
    machine.falsely_lost = false;
    machine.session = machine.incarnation;
    machine.last_heard = now();
    machine.epoch_sent = 0;
    machine.welcome = true;
    machine.term.join(cluster_.term());
    machine.led_by = cluster_.term();
    core::WorkerJoined joined;
    joined.worker = machine.id;
    joined.incarnation = machine.incarnation;
    joined.node = machine.node;
    const auto link = [&](std::int32_t from, std::int32_t to) {
        joined.links.push_back({from, to, config_.link_bytes_per_s, config_.link_latency_s});
    };
    for (const auto& [other, peer] : machines_) {
        if (other == machine.id) continue;
        link(vertex(machine.id), vertex(other));
        link(vertex(other), vertex(machine.id));
    }
    link(spec::kCoordinator, vertex(machine.id));
    link(vertex(machine.id), spec::kCoordinator);
    machine.last_hello = joined;
    if (std::exchange(machine.alone, false)) {
        joined.holding = machine.worker->holding();
        worker_event(machine.id, machine.incarnation, core::CoordinatorFound{});
    }
    cluster_.tell(joined);
    // It may know of a drain that was called off while the machine was away.
    if (machine.drains + machine.removes == 0) {
        cluster_.tell(core::DrainWorker{machine.id, false, true});
    }
}

void FaultyCluster::end_session(core::WorkerId id, std::uint64_t incarnation,
                                const std::string& reason) {
    Machine& machine = *machines_.at(id);
    if (machine.session != incarnation) return;  // known already
    machine.session = 0;
    if (machine.alive() && machine.incarnation == incarnation) {
        machine.falsely_lost = true;
        probes_.hit(Probe::lost_while_alive);
        if (machine.pauses > 0) probes_.hit(Probe::lost_while_paused);
    }
    for (const core::WorkerView& worker : coordinator().view().workers) {
        if (worker.worker == id && !worker.ready && !worker.layers.empty()) {
            probes_.hit(Probe::lost_while_loading);
        }
    }
    lost_since_placement_ = true;
    note_lost(id);
    const std::int64_t before = coordinator().view().failovers;
    losing_ = id;
    cluster_.tell(core::WorkerLost{id, reason});
    losing_.reset();
    if (coordinator().view().failovers > before) probes_.hit(Probe::failed_over);
}

bool FaultyCluster::hears(SimMachine& from, const SimMessage& message) {
    Machine& machine = ours(from);
    const std::uint64_t incarnation = message.incarnation;
    if (message.term != cluster_.term() && keeps_for_next()) {
        // It was said to a coordinator that is gone, by one that may not know that yet.
        if (machine.alive() && machine.incarnation == incarnation && !machine.alone &&
            machine.term.hears(message.term)) {
            probes_.hit(Probe::coordinator_back_before_it_was_missed);
            lose_coordinator(machine.id, incarnation);
        }
        return false;
    }
    if (machine.session != incarnation) {
        probes_.hit(Probe::old_incarnation_refused);
        if (cluster_.term() > 1 && machine.incarnation == incarnation) {
            probes_.hit(Probe::coordinator_back_before_it_was_missed);
        }
        refuse(machine.id, incarnation);
        return false;
    }
    machine.last_heard = now();
    const auto& said = std::get<core::CoordinatorMessage>(message.content);
    const auto* stuck = std::get_if<core::SequenceStuck>(&said);
    const auto held = stuck == nullptr ? outcomes_.end() : outcomes_.find(stuck->key.request);
    if (held != outcomes_.end()) held->second.was_stuck = true;
    return true;
}

// Core counts it as lost already. A sound worker never gives cause for it.
void FaultyCluster::on(const core::StageTimed& /*action*/) {}

void FaultyCluster::on(const core::CutOffWorker& action) {
    Machine& machine = *machines_.at(action.worker);
    ++counts_.liars_cut_off;
    probes_.hit(Probe::liar_cut_off);
    if (machine.lied_as != machine.session)
        check("a sound worker was cut off: it " + action.reason);
    lost_since_placement_ = true;
    refuse(action.worker, std::exchange(machine.session, 0));
}

// It hears that it does not count any more, and starts again.
void FaultyCluster::refuse(core::WorkerId id, std::uint64_t incarnation) {
    if (carrier_.network().is_cut(spec::kCoordinator, vertex(id))) return;
    after(config_.link_latency_s, [this, id, incarnation] {
        Machine& machine = *machines_.at(id);
        if (!machine.alive() || machine.incarnation != incarnation || machine.pauses > 0) return;
        start_again(machine);
    });
}

void FaultyCluster::lose_silent() {
    if (config_.silent_limit_s <= 0) return;
    for (auto& [id, machine] : machines_) {
        if (machine->session == 0) continue;
        if ((now() - machine->last_heard).seconds() <= config_.silent_limit_s) continue;
        probes_.hit(Probe::lost_by_silence);
        end_session(id, machine->session, "stopped answering");
    }
}

void FaultyCluster::declare_lost(core::WorkerId id) {
    const Machine& machine = *machines_.at(id);
    if (!machine.alive() || machine.session != machine.incarnation) return;
    ++counts_.false_losses;
    end_session(id, machine.session, "was lost (its connection broke)");
}

// ---- faults
// ---------------------------------------------------------------------------------------

void FaultyCluster::run_faults(const FaultPlan& plan) {
    for (const Fault& fault : plan) {
        at(now() + core::Duration{fault.at_us * 1000}, [this, fault, round = fault_round_] {
            if (round != fault_round_) return;
            const std::uint64_t number = next_fault_++;
            faults_.emplace(number, fault);
            begin(fault);
            if (fault.kind == FaultKind::move) keep_moving(number, fault.amount);
            if (fault.kind == FaultKind::lie) {
                keep_lying(number, {static_cast<std::uint32_t>(fault.a)}, fault.amount);
            }
            at(now() + core::Duration{fault.for_us * 1000}, [this, number] {
                const auto found = faults_.extract(number);
                if (!found.empty()) end(found.mapped());
            });
        });
    }
}

void FaultyCluster::calm() {
    ++fault_round_;
    std::map<std::uint64_t, Fault> faults = std::exchange(faults_, {});
    for (const auto& [number, fault] : faults) end(fault);
    for (const auto& [term, former] : cluster_.formers()) cluster_.stop_former(term);
}

void FaultyCluster::begin(const Fault& fault) {
    const auto who = [&]() -> Machine& {
        return *machines_.at({static_cast<std::uint32_t>(fault.a)});
    };
    if (trace_) trace("!", to_text(fault));
    switch (fault.kind) {
        case FaultKind::kill:
            ++who().kills;
            if (who().alive()) kill(who().id, fault.amount);
            break;
        case FaultKind::pause:
            pause(who().id);
            break;
        case FaultKind::cut:
            ++counts_.cuts;
            carrier_.network().cut(fault.a, fault.b, fault.drops);
            if (fault.drops) tell_down_later(fault.a, fault.b);
            break;
        case FaultKind::slow_link:
            carrier_.network().slow(fault.a, fault.b, fault.amount);
            break;
        case FaultKind::slow_node:
            ++who().slows;
            who().slow = fault.amount;
            break;
        case FaultKind::lose:
            carrier_.network().lose(fault.amount);
            break;
        case FaultKind::duplicate:
            carrier_.network().duplicate(fault.amount);
            break;
        case FaultKind::declare_lost:
            declare_lost(who().id);
            break;
        case FaultKind::old_hello:
            if (who().last_hello && who().last_hello->incarnation > 1) {
                core::WorkerJoined old = *who().last_hello;
                --old.incarnation;
                probes_.hit(Probe::old_hello_ignored);
                cluster_.tell(old);
            }
            break;
        case FaultKind::move:
            break;
        case FaultKind::drain:
        case FaultKind::remove:
            ++(fault.kind == FaultKind::drain ? who().drains : who().removes);
            ++counts_.drains;
            set_drain(who());
            break;
        case FaultKind::kill_coordinator:
            ++coordinator_kills_;
            kill_coordinator(fault.amount);
            break;
        case FaultKind::replace_coordinator:
            ++coordinator_kills_;
            replace_coordinator(fault.amount, static_cast<double>(fault.back_us) / 1e6);
            break;
        case FaultKind::lie:
            begin_lies(who(), fault.drops);
            break;
        case FaultKind::kill_gateway:
        case FaultKind::cut_gateway:
        case FaultKind::pause_gateway:
            begin_at_gateway(fault);
            break;
        case FaultKind::break_link:
            ++counts_.links_broken;
            carrier_.network().break_link(fault.a, fault.b);
            tell_broken(fault.a, fault.b);
            tell_broken(fault.b, fault.a);
            break;
    }
}

void FaultyCluster::end(const Fault& fault) {
    const auto who = [&]() -> Machine& {
        return *machines_.at({static_cast<std::uint32_t>(fault.a)});
    };
    if (trace_) trace("!", "over: " + to_text(fault));
    switch (fault.kind) {
        case FaultKind::kill:
            if (--who().kills == 0 && !who().alive()) start(who());
            break;
        case FaultKind::pause:
            resume(who().id);
            break;
        case FaultKind::cut:
            mend(fault.a, fault.b);
            tell_broken(fault);
            break;
        case FaultKind::slow_link:
            carrier_.network().not_slow(fault.a, fault.b);
            break;
        case FaultKind::slow_node:
            if (--who().slows == 0) who().slow = 1;
            break;
        case FaultKind::lose:
            carrier_.network().not_lose();
            break;
        case FaultKind::duplicate:
            carrier_.network().not_duplicate();
            break;
        case FaultKind::drain:
            --who().drains;
            set_drain(who());
            break;
        case FaultKind::remove:
            if (--who().removes == 0 && !who().alive() && who().kills == 0) start(who());
            set_drain(who());
            break;
        case FaultKind::kill_coordinator:
        case FaultKind::replace_coordinator:
            if (--coordinator_kills_ == 0) start_coordinator();
            break;
        case FaultKind::lie:
            end_lies(who(), fault.drops);
            break;
        case FaultKind::kill_gateway:
        case FaultKind::cut_gateway:
        case FaultKind::pause_gateway:
            end_at_gateway(fault);
            break;
        case FaultKind::declare_lost:
        case FaultKind::old_hello:
        case FaultKind::move:
        case FaultKind::break_link:
            break;
    }
}

// The connection is there again; what was under way on it is not.
void FaultyCluster::tell_broken(const Fault& cut) {
    if (cut.a == spec::kCoordinator || cut.b == spec::kCoordinator) return;
    const bool told =
        !carrier_.network().is_cut(cut.a, cut.b) && told_down_.erase({cut.a, cut.b}) > 0;
    if (cut.drops || told) tell_broken(cut.a, cut.b);
}

// Whoever sends over a link that stays cut notices, also one that started meanwhile.
void FaultyCluster::tell_down_later(std::int32_t from, std::int32_t to) {
    if (from == spec::kCoordinator || to == spec::kCoordinator) return;
    after(kDownSeconds, [this, from, to] {
        if (!carrier_.network().is_cut(from, to)) return;
        probes_.hit(Probe::link_told_down);
        told_down_.insert({from, to});
        const Machine& machine = *machines_.at({static_cast<std::uint32_t>(from)});
        worker_event(machine.id, machine.incarnation,
                     core::PeerBroken{{static_cast<std::uint32_t>(to)}, true});
        tell_down_later(from, to);
    });
}

void FaultyCluster::tell_broken(std::int32_t at, std::int32_t peer) {
    const Machine& machine = *machines_.at({static_cast<std::uint32_t>(at)});
    probes_.hit(Probe::link_came_back);
    worker_event(machine.id, machine.incarnation,
                 core::PeerBroken{{static_cast<std::uint32_t>(peer)}});
}

}  // namespace helix::sim
