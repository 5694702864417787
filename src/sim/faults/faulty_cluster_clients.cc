// Clients at gateways: what each hears of its request, and how it asks again when its gateway dies.

#include <utility>
#include <variant>

#include "base/random.h"
#include "sim/faults/faulty_gateway.h"
#include "sim/faults/faulty_machine.h"

namespace helix::sim {
namespace {

constexpr double kAskAgainSeconds = 1;  // at most, after a connection broke or nobody was there

}  // namespace

void FaultyCluster::add_client(const core::Request& request) {
    auto client = std::make_unique<Client>();
    client->request = request;
    clients_.emplace(request.id, std::move(client));
    ask(request.id);
}

// At any gateway that lives. One that stands still takes it when it goes on.
void FaultyCluster::ask(core::RequestId id) {
    Client& client = *clients_.at(id);
    if (at_clients_.at(id).ended) return;
    std::vector<Gateway*> alive;
    for (const auto& gateway : gateways_) {
        if (gateway->requests.has_value()) alive.push_back(gateway.get());
    }
    if (alive.empty()) return ask_later(id);
    Gateway& gateway = *alive[gateway_.below(alive.size())];
    client.gateway = gateway.index;
    client.id = {};
    client.heard.clear();
    client.scored = 0;
    if (++client.asks > 1) {
        ++counts_.asked_again;
        probes_.hit(Probe::asked_again);
    }
    const auto submit = [this, &gateway, &client, id, asks = client.asks] {
        if (client.asks != asks || at_clients_.at(id).ended) return;
        client.id = gateway.requests->submit(client.request);
        gateway.asked.emplace(client.id, id);
        pump(gateway);
    };
    if (gateway.pauses > 0) {
        gateway.inbox.emplace_back(submit);
    } else {
        submit();
    }
}

void FaultyCluster::ask_later(core::RequestId id) {
    after(kAskAgainSeconds * gateway_.uniform(), [this, id, asks = clients_.at(id)->asks] {
        if (clients_.at(id)->asks == asks) ask(id);
    });
}

void FaultyCluster::lose_connection(core::RequestId id) {
    Client& client = *clients_.at(id);
    client.gateway.reset();
    client.id = {};
    ask_later(id);
}

// It hears no more.
void FaultyCluster::close_client(core::RequestId id, core::FinishReason reason) {
    Outcome& outcome = at_clients_.at(id);
    Client& client = *clients_.at(id);
    client.gateway.reset();
    client.id = {};
    ++client.asks;
    outcome.ended = true;
    outcome.reason = reason;
    outcome.ended_at = now();
    --open_;
}

void FaultyCluster::leave(core::RequestId id) {
    const Client& client = *clients_.at(id);
    if (client.gateway.has_value() && client.id.value != 0) {
        Gateway& gateway = *gateways_.at(static_cast<std::size_t>(*client.gateway));
        const auto end = [this, &gateway, life = gateway.life, request = client.id] {
            if (gateway.life != life) return;
            gateway.requests->end(request, core::FinishReason::cancelled);
            pump(gateway);
        };
        close_client(id, core::FinishReason::cancelled);
        if (gateway.pauses > 0) {
            gateway.inbox.emplace_back(end);
        } else {
            end();
        }
    } else {
        close_client(id, core::FinishReason::cancelled);
    }
    if (watch_ != nullptr)
        watch_->finished(now(), core::FinishRequest{id, core::FinishReason::cancelled});
}

// What it gets this time is not what it has. Nobody knows what a worker that draws wrong says.
void FaultyCluster::differ(core::RequestId id) {
    if (!at_clients_.at(id).misdrawn) return check("a client that asked again got another answer");
    if (watch_ != nullptr) watch_->cancelled(now(), id);
    leave(id);
}

// ---- what a client hears
// --------------------------------------------------------------------------

void FaultyCluster::hear(Gateway& gateway, core::RequestEvent& event) {
    std::visit(
        [&](auto& one) {
            const core::RequestId id = gateway.asked.at(one.id);
            Client& client = *clients_.at(id);
            const bool waits = client.gateway == gateway.index && client.id == one.id;
            if (!waits || broken_) return;  // it has left
            one.id = id;
            digest_ = base::hash_pair(digest_, id.value);
            hear(client, at_clients_.at(id), one);
        },
        event);
}

// The coordinator's word counts from when it was said: what is slow on the way to a gateway is no
// pause of the cluster's.
core::TimePoint FaultyCluster::said() const {
    return heard_.value_or(now());
}

void FaultyCluster::hear(Client& /*client*/, Outcome& outcome, const core::AcceptRequest& event) {
    if (std::exchange(outcome.accepted, true)) return;
    if (watch_ != nullptr) watch_->accepted(said(), event.id);
}

void FaultyCluster::hear(Client& /*client*/, Outcome& outcome, const core::RejectRequest& event) {
    if (outcome.accepted) {
        // It was accepted before, and its connection broke. There may be room later.
        const bool later = event.reason == core::RejectReason::queue_full ||
                           event.reason == core::RejectReason::unavailable;
        if (later) return lose_connection(event.id);
        close_client(event.id, core::FinishReason::error);
        outcome.cut_off = true;
        ++counts_.cut_off;
        probes_.hit(Probe::refused_when_asked_again);
        if (watch_ != nullptr) watch_->cut_off(now(), event.id);
        return;
    }
    close_client(event.id, core::FinishReason::error);
    outcome.rejected = true;
    outcome.error = event.message;
    if (watch_ != nullptr) watch_->rejected(said(), event);
}

void FaultyCluster::hear(Client& /*client*/, Outcome& outcome, const core::RequestRouted& event) {
    outcome.pipelines.push_back(event.pipeline);
}

void FaultyCluster::hear(Client& client, Outcome& outcome, const core::StreamToken& event) {
    if (event.index != client.heard[event.choice]++) {
        return check("a gateway skipped or repeated a token");
    }
    std::vector<core::Token>& has = outcome.choices[event.choice];
    const auto at = static_cast<std::size_t>(event.index);
    if (at < has.size()) {
        probes_.hit(Probe::heard_again);
        if (has[at] != event.token.token) differ(event.id);
        return;
    }
    if (outcome.choices_ended.contains(event.choice)) return differ(event.id);
    has.push_back(event.token.token);
    if (event.choice == 0) outcome.tokens.push_back(event.token.token);
    if (watch_ != nullptr) watch_->token(said(), event);
}

void FaultyCluster::hear(Client& client, Outcome& outcome, const core::ScoreTokens& event) {
    core::ScoreTokens lacks{event.id, {}};
    for (const core::ProducedToken& token : event.tokens) {
        if (token.position != ++client.scored)
            return check("a gateway skipped or repeated a token of a prompt");
        if (static_cast<std::size_t>(token.position) <= outcome.scored.size()) {
            const core::ProducedToken& had =
                outcome.scored[static_cast<std::size_t>(token.position) - 1];
            if (had.token != token.token || had.top != token.top) return differ(event.id);
            continue;
        }
        outcome.scored.push_back(token);
        lacks.tokens.push_back(token);
    }
    if (!lacks.tokens.empty() && watch_ != nullptr) watch_->scored(said(), lacks);
}

void FaultyCluster::hear(Client& /*client*/, Outcome& outcome, const core::EmbedPrompt& event) {
    if (outcome.embedding.empty()) outcome.embedding = event.values;
}

void FaultyCluster::hear(Client& /*client*/, Outcome& outcome, const core::FinishChoice& event) {
    if (!outcome.choices_ended.emplace(event.choice, event.reason).second) return;
    if (watch_ != nullptr) watch_->choice_finished(said(), event);
}

void FaultyCluster::hear(Client& client, Outcome& outcome, const core::FinishRequest& event) {
    close_client(event.id, event.reason);
    outcome.cause = event.cause;
    outcome.error = event.error;
    if (watch_ == nullptr) return;
    const bool kills = event.reason == core::FinishReason::kills_workers;
    for (std::int32_t i = 0; kills && i < client.losses; ++i) watch_->worker_lost(event.id);
    watch_->finished(said(), event);
}

// Nobody asks for it here.
void FaultyCluster::hear(Client& /*client*/, Outcome& /*outcome*/,
                         const core::StageTimed& /*event*/) {}

}  // namespace helix::sim
