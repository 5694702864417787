// Gateways, which outlive coordinators: machines that run core::GatewayRequests, and find, lose and
// join coordinators over a network of their own. No message is lost in a connection; connections
// are.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/overloaded.h"
#include "base/planted_bug.h"
#include "sim/faults/faulty_gateway.h"
#include "sim/faults/faulty_machine.h"
#include "wire/codec.h"

namespace helix::sim {
namespace {

constexpr std::size_t kMessagesAtOnce = 16;
constexpr std::uint32_t kNumbersAtOnce = 256;
constexpr double kMessageBytes = 256;
constexpr double kWelcomeSeconds = 1;  // for so long a gateway waits for an answer to its hello

bool has_swapped(const core::Worker& worker, core::RequestId id) {
    const std::vector<core::SequenceHeld> held = worker.holding().sequences;
    return std::any_of(held.begin(), held.end(), [&](const core::SequenceHeld& one) {
        return one.key.request == id && one.swapped;
    });
}

std::int32_t gateway_vertex(std::int32_t index) {
    return spec::kCoordinator - 1 - index;
}

}  // namespace

std::string GatewaySession::name() const {
    return fmt::format("g{}/{}", gateway, number);
}

// ---- machines
// -------------------------------------------------------------------------------------

void FaultyCluster::add_gateways() {
    for (std::int32_t index = 0; index < config_.gateways; ++index) {
        gateways_.push_back(std::make_unique<Gateway>());
        gateways_.back()->index = index;
        start(*gateways_.back());
    }
}

void FaultyCluster::start(Gateway& gateway) {
    CHECK(!gateway.requests.has_value());
    ++gateway.life;
    gateway.requests.emplace(config_.gateway_rules, wire::check_request, now());
    look(gateway);
}

// The coordinator hears of it later. What it has sent arrives.
void FaultyCluster::kill(Gateway& gateway, double told_after_s) {
    ++counts_.gateway_kills;
    if (gateway.requests->open() > 0) probes_.hit(Probe::gateway_killed_while_serving);
    if (gateway.requests->open() > 0 && !gateway.welcome)
        probes_.hit(Probe::gateway_killed_without_coordinator);
    after(told_after_s, [this, session = gateway.session] { lose_gateway(session); });
    ++gateway.life;
    gateway.requests.reset();
    gateway.term.forget();
    gateway.led_by = 0;
    gateway.session = {};
    gateway.welcome = false;
    gateway.inbox.clear();
    gateway.asked.clear();
    for (auto& [id, client] : clients_) {
        if (client->gateway == gateway.index) lose_connection(id);
    }
}

void FaultyCluster::resume(Gateway& gateway) {
    if (--gateway.pauses > 0) return;
    for (const auto& what : std::exchange(gateway.inbox, {})) what();
}

void FaultyCluster::cut(Gateway& gateway, double told_after_s) {
    ++counts_.gateway_cuts;
    ++gateway.cuts;
    const GatewaySession session = gateway.session;
    if (session.number == 0) return;
    dead_sessions_.insert(session.number);
    gateway_net_.break_link(gateway_vertex(gateway.index), spec::kCoordinator);
    after(told_after_s * gateway_.uniform(), [this, session] { lose_gateway(session); });
    miss_coordinator(gateway, told_after_s * gateway_.uniform());
}

// Does it when so much time has passed and the gateway does not stand still, if that lives.
void FaultyCluster::soon(const Gateway& gateway, double seconds, std::function<void()> what) {
    after(seconds, [this, index = gateway.index, life = gateway.life, act = std::move(what)] {
        Gateway& here = *gateways_.at(static_cast<std::size_t>(index));
        if (here.life != life) return;
        if (here.pauses > 0) {
            here.inbox.push_back(act);
        } else {
            act();
        }
    });
}

void FaultyCluster::tick_gateways() {
    for (const auto& gateway : gateways_) {
        if (!gateway->requests.has_value()) continue;
        if (gateway->pauses == 0) {
            gateway->requests->on_tick(now());
            pump(*gateway);
        } else if (config_.silent_limit_s > 0 &&
                   (now() - gateway->paused_since).seconds() > config_.silent_limit_s) {
            if (lose_gateway(gateway->session)) probes_.hit(Probe::gateway_lost_by_silence);
        }
    }
}

// ---- faults
// ---------------------------------------------------------------------------------------

void FaultyCluster::begin_at_gateway(const Fault& fault) {
    Gateway& gateway = *gateways_.at(static_cast<std::size_t>(fault.a));
    if (fault.kind == FaultKind::kill_gateway) {
        ++gateway.kills;
        if (gateway.requests.has_value()) kill(gateway, fault.amount);
    } else if (fault.kind == FaultKind::cut_gateway) {
        cut(gateway, fault.amount);
    } else {
        ++counts_.gateway_pauses;
        if (gateway.pauses++ == 0) gateway.paused_since = now();
    }
}

void FaultyCluster::end_at_gateway(const Fault& fault) {
    Gateway& gateway = *gateways_.at(static_cast<std::size_t>(fault.a));
    if (fault.kind == FaultKind::kill_gateway) {
        if (--gateway.kills == 0) start(gateway);
    } else if (fault.kind == FaultKind::cut_gateway) {
        --gateway.cuts;
    } else {
        resume(gateway);
    }
}

// ---- finding a coordinator
// ------------------------------------------------------------------------

void FaultyCluster::look(Gateway& gateway) {
    if (gateway.session.number != 0) return;
    bool none = gateway.cuts > 0 || !cluster_.coordinator_up();
    none = none || finds_former(gateway.term);
    if (none) return soon(gateway, kHelloRetrySeconds, [this, &gateway] { look(gateway); });
    gateway.session = {gateway.index, ++last_session_, cluster_.term()};
    gateway.welcome = false;
    send_up(gateway.session, [this, session = gateway.session] { let_in(session); });
    soon(gateway, kWelcomeSeconds, [this, &gateway, number = gateway.session.number] {
        if (gateway.session.number != number || gateway.welcome) return;
        gateway.session = {};
        look(gateway);
    });
}

// It notices within that time that its coordinator is gone.
void FaultyCluster::miss_coordinator(Gateway& gateway, double seconds) {
    if (gateway.session.number == 0) return;
    soon(gateway, seconds, [this, &gateway, number = gateway.session.number] {
        if (gateway.session.number != number) return;
        if (trace_) trace(fmt::format("g{}", gateway.index), "misses its coordinator");
        gateway.session = {};
        gateway.welcome = false;
        gateway.requests->on_coordinator_gone(now());
        pump(gateway);
        soon(gateway, kHelloRetrySeconds * gateway_.uniform(), [this, &gateway] { look(gateway); });
    });
}

// ---- what goes over the network
// --------------------------------------------------------------------

void FaultyCluster::send_between(const GatewaySession& session, std::int32_t from, std::int32_t to,
                                 std::function<void()> deliver) {
    const Gateway& gateway = *gateways_.at(static_cast<std::size_t>(session.gateway));
    if (gateway.cuts > 0 || dead_sessions_.contains(session.number)) return;
    for (FaultNetwork::Arrival& arrival :
         gateway_net_.send(now(), from, to, kMessageBytes, std::move(deliver))) {
        at(arrival.when, std::move(arrival.deliver));
    }
}

void FaultyCluster::send_up(const GatewaySession& session, std::function<void()> deliver) {
    send_between(session, gateway_vertex(session.gateway), spec::kCoordinator, std::move(deliver));
}

void FaultyCluster::send_down(const GatewaySession& session, GatewayWord word) {
    send_between(session, spec::kCoordinator, gateway_vertex(session.gateway),
                 [this, session, said = std::move(word)] { arrive_at_gateway(session, said); });
}

void FaultyCluster::arrive_at_gateway(const GatewaySession& session, const GatewayWord& word) {
    Gateway& gateway = *gateways_.at(static_cast<std::size_t>(session.gateway));
    if (!gateway.requests.has_value()) return;
    if (gateway.pauses > 0) {
        gateway.inbox.emplace_back([this, session, word] { arrive_at_gateway(session, word); });
        return;
    }
    // A connection ends with the coordinator that it was to, or when the gateway gives that up.
    if (session.number != gateway.session.number) {
        if (!cluster_.formers().contains(session.term)) return;
        ++counts_.former_words;
        probes_.hit(Probe::former_unheard);
        const bool unchecked = base::planted(base::PlantedBug::term_not_checked_by_gateway);
        if (!unchecked || gateway.term.hears(session.term)) return;
        if (session.term < gateway.led_by)
            check("a gateway was led by a coordinator that was replaced");
        return;
    }
    std::visit(
        base::Overloaded{
            [&](const std::monostate&) {
                gateway.term.join(session.term);
                gateway.led_by = session.term;
                gateway.welcome = true;
                if (trace_) trace(fmt::format("g{}", gateway.index), "is let in");
                gateway.requests->on_coordinator();
            },
            [&](const core::RequestNumbers& numbers) { gateway.requests->on_numbers(numbers); },
            [&](const core::RequestEvents& events) {
                const base::Status sense = gateway.requests->on_events(now(), events);
                if (!sense.ok()) check("a coordinator makes no sense: it " + sense.error().message);
                heard_ = events.said;
            },
        },
        word);
    pump(gateway);
    heard_.reset();
}

// What it has to say goes out, to the coordinator and to clients.
void FaultyCluster::pump(Gateway& gateway) {
    while (gateway.welcome) {
        std::vector<core::GatewayMessage> some = gateway.requests->take_messages(kMessagesAtOnce);
        if (some.empty()) break;
        for (core::GatewayMessage& message : some) {
            if (const auto* submitted = std::get_if<core::Submitted>(&message)) {
                const core::RequestId number = submitted->request.id;
                const core::RequestId id = gateway.requests->id_of(number);
                numbered_[number] = {gateway.asked.at(id), id};
            }
            send_up(gateway.session, [this, session = gateway.session, said = std::move(message)] {
                arrive_from_gateway(session, said);
            });
        }
    }
    for (core::RequestEvent& event : gateway.requests->take_told()) hear(gateway, event);
}

// ---- the coordinator's side
// -----------------------------------------------------------------------

void FaultyCluster::let_in(const GatewaySession& session) {
    if (session.term != cluster_.term() || !cluster_.coordinator_up()) return;
    // Its connection may have broken unheard. The new one brings what was open.
    for (const auto& [name, other] : std::map(ledger_->sessions)) {
        if (other.gateway != session.gateway) continue;
        probes_.hit(Probe::gateway_came_anew_before_it_was_missed);
        lose_gateway(other);
    }
    ledger_->roster.admit(session.name(), fmt::format("g{}", session.gateway));
    ledger_->sessions.emplace(session.name(), session);
    send_down(session, std::monostate{});
    give_numbers(session);
}

void FaultyCluster::give_numbers(const GatewaySession& session) {
    send_down(session, core::RequestNumbers{{next_request_}, kNumbersAtOnce});
    next_request_ += kNumbersAtOnce;
}

void FaultyCluster::arrive_from_gateway(const GatewaySession& session,
                                        const core::GatewayMessage& message) {
    if (session.term != cluster_.term() || !cluster_.coordinator_up()) return;
    const std::string name = session.name();
    core::GatewayRoster& roster = ledger_->roster;
    if (!roster.is_here(name)) return;
    std::visit(base::Overloaded{
                   [&](const core::RequestNumbers&) { give_numbers(session); },
                   [&](const core::Submitted& submitted) {
                       const base::Status added = roster.add(name, submitted.request.id);
                       if (!added.ok()) return check(added.error().message);
                       begin_run(session, submitted);
                       cluster_.tell(submitted);
                   },
                   [&](const core::Ended& ended) {
                       if (!roster.has(name, ended.id)) return;  // it ended at the same time
                       if (!ended.choice.has_value()) roster.forget(ended.id);
                       cluster_.tell(ended);
                   },
                   [&](const core::MoveRequest& move) {
                       if (roster.has(name, move.id)) cluster_.tell(move);
                   },
               },
               message);
}

// What the coordinator makes of a request from now on.
void FaultyCluster::begin_run(const GatewaySession& session, const core::Submitted& submitted) {
    const core::Request& request = submitted.request;
    const auto [client, id] = numbered_.at(request.id);
    const auto known = outcomes_.find(request.id);
    if (known != outcomes_.end()) {
        if (known->second.client != client) return check("a request got the number of another");
        if (!submitted.begun) return check("a request that was not accepted kept its number");
        if (known->second.term == session.term) {
            ++counts_.handed_over_again;
            probes_.hit(Probe::handed_over_to_the_same_coordinator);
        }
    }
    if (!submitted.begun) {
        core::RequestId& newest = ledger_->newest[session.name()];
        if (id < newest)
            check("a gateway's new requests came in another order than they came to it");
        newest = id;
    }
    const Outcome& wanted = at_clients_.at(client);
    Outcome& run = outcomes_[request.id];
    run.client = client;
    run.term = session.term;
    run.prompt_tokens = wanted.prompt_tokens;
    run.is_group = wanted.is_group;
    run.has_beams = wanted.has_beams;
    run.n = wanted.n;
    run.poison_at = wanted.poison_at;
    run.accepted = submitted.begun.has_value();
    run.ended = run.rejected = false;
    // This coordinator knows of no death that another one counted.
    run.killed = run.losses = 0;
    drafts_.forget(request.id);
    drafts_.begin(request);
    if (!submitted.begun) return;
    ++counts_.handed_over;
    run.choices.clear();
    run.choices_ended.clear();
    run.scored.resize(static_cast<std::size_t>(submitted.begun->scored));
    run.embedding.clear();
    for (std::int32_t i = 0; i < run.n; ++i) {
        const core::Begun::Choice& got = submitted.begun->choices[static_cast<std::size_t>(i)];
        if (!got.output.empty()) run.choices[i] = got.output;
        if (got.ended) run.choices_ended.emplace(i, core::FinishReason::stop);
    }
    run.tokens = submitted.begun->choices.front().output;
}

// Its clients are not there any more, or come again with it: what runs for them ends. Says whether
// the coordinator had it.
bool FaultyCluster::lose_gateway(const GatewaySession& session) {
    const std::string name = session.name();
    if (ledger_->sessions.erase(name) == 0) return false;
    if (trace_) trace("c", fmt::format("loses gateway {}", name));
    ledger_->newest.erase(name);
    std::vector<core::RequestId> had;
    for (const auto& [number, run] : outcomes_) {
        if (ledger_->roster.has(name, number)) had.push_back(number);
    }
    for (const core::RequestId id : ledger_->roster.remove(name)) {
        cluster_.tell(core::Ended{id, core::FinishReason::cancelled});
    }
    for (const core::RequestId number : had) {
        if (!outcomes_.at(number).ended) check("a request runs on for a gateway that is gone");
    }
    // It hears that its connection is closed, unless it knows or has another.
    Gateway& gateway = *gateways_.at(static_cast<std::size_t>(session.gateway));
    const bool believes = gateway.session.number == session.number;
    if (believes && gateway.cuts == 0 && !dead_sessions_.contains(session.number))
        miss_coordinator(gateway, config_.link_latency_s);
    return true;
}

void FaultyCluster::pass_on(core::RequestId number, core::RequestEvent event, bool last) {
    if (ledger_->roster.has(number)) ledger_->roster.tell(number, std::move(event), last);
}

void FaultyCluster::flush(GatewayLedger& ledger, std::uint64_t term) {
    for (auto& [name, events] : ledger.roster.take_events()) {
        const GatewaySession& session = ledger.sessions.at(name);
        CHECK(session.term == term);
        send_down(session, core::RequestEvents{now(), std::move(events)});
    }
}

void FaultyCluster::note_adopted(const core::RequestRouted& action, Outcome& outcome) {
    ++counts_.adopted;
    probes_.hit(Probe::adopted);
    if (outcome.is_group) probes_.hit(Probe::adopted_group);
    const core::Worker* last = machines_.at(action.pipeline.back().worker)->worker.get();
    if (last != nullptr && has_swapped(*last, action.id)) probes_.hit(Probe::adopted_swapped);
    const auto ran = outcome.ran.find(action.attempt);
    if (ran == outcome.ran.end() || ran->second != action.pipeline) {
        check("a request was adopted where it did not run");
    } else if (outcome.attempt != action.attempt) {
        if (outcome.unheard.contains(action.attempt)) probes_.hit(Probe::adopted_of_former);
        if (action.attempt < outcome.attempt) probes_.hit(Probe::adopted_of_earlier_attempt);
        outcome.pipelines.push_back(action.pipeline);
        outcome.attempt = action.attempt;
    }
    note_touched(action.id, outcome);
}

std::string FaultyCluster::left_at_gateways() const {
    for (const auto& gateway : gateways_) {
        const std::string who = fmt::format("gateway {}", gateway->index);
        if (!gateway->requests.has_value() || !gateway->welcome) return who + " has no coordinator";
        if (gateway->requests->open() > 0) return who + " has requests of nobody";
    }
    for (const auto& [number, run] : outcomes_) {
        if (ledger_->roster.has(number))
            return fmt::format("request {} is still a gateway's", number.value);
        if (!run.ended && !gateways_.empty())
            return fmt::format("request {} was never ended", number.value);
    }
    return "";
}

}  // namespace helix::sim
