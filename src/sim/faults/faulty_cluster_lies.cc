// Workers that lie: what they say is wrong, missing, late or was never asked for. Of the lies that
// nothing explains but a lie the coordinator must cut the liar off; the others it must survive.
// Only with wrong_draws are tokens made up that a sound worker could have drawn, too.

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "core/protocol/describe.h"
#include "sim/faults/faulty_machine.h"

namespace helix::sim {
namespace {

constexpr double kTwisted = 0.1;  // of what a liar says anyway

std::int64_t any_number(base::Random& random, std::int64_t near) {
    constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
    const std::int64_t some[] = {near, near + 1, near - 1, 0, -1, kLargest, -kLargest, 1 << 20};
    return some[random.below(std::size(some))];
}

}  // namespace

void FaultyCluster::keep_lying(std::uint64_t fault, core::WorkerId id, double per_second) {
    if (!faults_.contains(fault)) return;
    Machine& machine = *machines_.at(id);
    if (machine.alive() && machine.welcome && machine.pauses == 0) tell_lie(machine);
    after(1 / std::max(per_second, 0.01), [=, this] { keep_lying(fault, id, per_second); });
}

void FaultyCluster::begin_lies(Machine& machine, bool wrong_draws) {
    ++machine.lies;
    machine.draws_wrong += wrong_draws ? 1 : 0;
    for (auto& [request, outcome] : outcomes_) {
        if (may_run(outcome)) note_touched(request, outcome);
    }
}

// A liar is replaced by a sound machine in the end.
void FaultyCluster::end_lies(Machine& machine, bool wrong_draws) {
    --machine.lies;
    machine.draws_wrong -= wrong_draws ? 1 : 0;
    if (!machine.alive()) return;
    kill(machine.id);
    if (machine.kills == 0) start(machine);
}

void FaultyCluster::note_touched(core::RequestId id, const Outcome& outcome) {
    if (!outcome.pipelines.empty()) note_touched(id, outcome, outcome.pipelines.back());
    for (const std::uint32_t attempt : outcome.unheard) {
        note_touched(id, outcome, outcome.ran.at(attempt));
    }
}

void FaultyCluster::note_touched(core::RequestId id, const Outcome& outcome,
                                 const core::Pipeline& pipeline) {
    for (const core::Stage& stage : pipeline) {
        const Machine& machine = *machines_.at(stage.worker);
        if (machine.lies == 0) continue;
        const bool wrong = machine.draws_wrong > 0;
        if (!gateways_.empty() && wrong) at_clients_.at(outcome.client).misdrawn = true;
        if (watch_ != nullptr) watch_->touched(gateways_.empty() ? id : outcome.client, wrong);
    }
}

core::StuckCause FaultyCluster::any_cause() {
    constexpr auto kCauses = static_cast<std::uint64_t>(core::kLastStuckCause) + 1;
    return static_cast<core::StuckCause>(lies_.below(kCauses));
}

core::SequenceKey FaultyCluster::any_key() {
    std::vector<core::RequestId> open;
    for (const auto& [id, outcome] : outcomes_) {
        if (!outcome.ended && !outcome.pipelines.empty()) open.push_back(id);
    }
    core::SequenceKey key;
    if (open.empty() || lies_.chance(0.1)) {
        key.request = {next_request_ + lies_.below(4) - std::min<std::uint64_t>(next_request_, 2)};
        key.attempt = static_cast<std::uint32_t>(lies_.below(4));
    } else {
        key.request = open[lies_.below(open.size())];
        const Outcome& outcome = outcomes_.at(key.request);
        key.attempt = outcome.attempt + (lies_.chance(0.2) ? 1 : 0);
        if (lies_.chance(0.1)) --key.attempt;
        if (outcome.is_group) key.member = static_cast<std::uint32_t>(lies_.below(5));
    }
    if (lies_.chance(0.05)) key.member = std::numeric_limits<std::uint32_t>::max();
    return key;
}

core::ProducedToken FaultyCluster::any_token(const Machine& machine) {
    core::ProducedToken token;
    token.key = any_key();
    const auto found = outcomes_.find(token.key.request);
    std::int32_t next = 0;
    std::int32_t n_said = 0;
    if (found != outcomes_.end()) {
        const Outcome& outcome = found->second;
        const auto choice = outcome.choices.find(static_cast<std::int32_t>(token.key.member));
        next = outcome.prompt_tokens;
        if (choice != outcome.choices.end() && !outcome.has_beams) {
            n_said = static_cast<std::int32_t>(choice->second.size());
            next += n_said;
        }
    }
    // One that comes next, now or when this arrives, would be a draw: only who draws wrong says so.
    // Others say again, otherwise, what has been said, or what never comes.
    const auto off = 1 + static_cast<std::int32_t>(lies_.below(3));
    const bool said = n_said >= off && lies_.chance(0.5);
    if (machine.draws_wrong > 0) {
        token.position = next + off;
    } else {
        token.position = said ? next - off : next + off + config_.coordinator.context_length;
    }
    if (lies_.chance(0.2)) token.position = std::numeric_limits<std::int32_t>::max();
    if (lies_.chance(0.2)) token.position = -1;
    token.token = static_cast<core::Token>(any_number(lies_, config_.vocab));
    return token;
}

core::CoordinatorMessage FaultyCluster::any_lie(const Machine& machine) {
    const auto number = [&](std::int64_t near) { return any_number(lies_, near); };
    const auto epoch = static_cast<std::uint64_t>(machine.epoch_sent + lies_.below(2));
    const std::int32_t n_layers = config_.coordinator.n_layers;
    const auto begin = static_cast<std::int32_t>(lies_.below(static_cast<std::uint64_t>(n_layers)));
    const core::LayerRange layers = {begin, n_layers};
    switch (lies_.below(9)) {
        case 0: {
            core::TokensProduced tokens;
            for (std::uint64_t i = 0; i <= lies_.below(3); ++i) {
                (lies_.chance(0.2) ? tokens.scored : tokens.tokens).push_back(any_token(machine));
            }
            return tokens;
        }
        case 1:
            return core::SequenceStuck{any_key(), any_cause(), "it says so"};
        case 2:
            return core::LayersReady{epoch,
                                     layers,
                                     number(machine.kv_pages),
                                     number(config_.swap_pages),
                                     "toy 0",
                                     static_cast<double>(number(65536)),
                                     static_cast<double>(number(0))};
        case 3:
            return core::LayersFailed{epoch, "it says so"};
        case 4: {
            core::WorkerReport report{number(1), number(machine.kv_pages), number(0), number(9),
                                      number(9), number(1'000'000'000),    {},        number(0),
                                      number(0)};
            for (std::uint64_t i = lies_.below(4); i > 0; --i) report.held.push_back(any_key());
            return report;
        }
        case 5:
            return core::KvReserved{any_key()};
        case 6:
            return core::KvArrived{any_key(), static_cast<std::uint32_t>(lies_.below(4)), layers};
        case 7:
            return core::KvRefused{any_key(), core::KvRefusal::impossible, "it says so"};
        default:
            return core::PeerLost{{static_cast<std::uint32_t>(lies_.below(machines_.size() + 2))},
                                  lies_.chance(0.5)};
    }
}

void FaultyCluster::tell_lie(Machine& machine) {
    machine.lied_as = machine.incarnation;
    machine.lied_before.insert(machine.incarnation);
    if (machines_.size() > 1 && lies_.chance(0.3)) return lie_to_peer(machine);
    core::CoordinatorMessage lie = any_lie(machine);
    if (trace_) {
        trace("w" + std::to_string(machine.id.value),
              "lies: " + core::describe(core::WorkerAction{core::SendToCoordinator{lie}}));
    }
    carrier_.send({machine.id,
                   machine.incarnation,
                   machine.term.highest(),
                   std::move(lie),
                   vertex(machine.id),
                   spec::kCoordinator,
                   {}},
                  FaultyCarrier::Kind::report);
}

// Rows and KV that nobody can use. What would be taken for another worker's is left to wrong_draws.
void FaultyCluster::lie_to_peer(Machine& machine) {
    auto to = static_cast<std::uint32_t>(lies_.below(machines_.size()));
    if (to == machine.id.value) to = (to + 1) % static_cast<std::uint32_t>(machines_.size());
    core::SequenceKey key = any_key();
    key.request = {next_request_ + 1000 + lies_.below(4)};
    const auto deliver = [&](core::WorkerMessage message) {
        carrier_.send(
            vertex(machine.id), static_cast<std::int32_t>(to), 64, FaultyCarrier::Kind::rows,
            [this, to, incarnation = machines_.at({to})->incarnation, said = std::move(message)] {
                worker_event({to}, incarnation, core::MessageArrived{said});
            });
    };
    if (lies_.chance(0.5)) {
        core::KvBlocks blocks;
        blocks.key = key;
        blocks.layers = {0, config_.coordinator.n_layers};
        blocks.spans.push_back({key.member, static_cast<std::int32_t>(lies_.below(1 << 20)), 7});
        blocks.places.push_back({key.member, static_cast<std::int32_t>(lies_.below(1 << 20)), 5});
        return deliver(blocks);
    }
    core::StageInput input;
    input.key = key;
    input.first_position = static_cast<std::int32_t>(lies_.below(3));
    input.tokens.push_back(static_cast<core::Token>(any_number(lies_, config_.vocab)));
    input.sample = lies_.chance(0.5);
    input.drafts = static_cast<std::int32_t>(lies_.below(3));
    input.draws = static_cast<std::int32_t>(lies_.below(3));
    input.parent = static_cast<std::int32_t>(lies_.below(3)) - 1;
    if (lies_.chance(0.7)) {
        core::SequenceStart start;
        start.pipeline = {{{to}, {0, config_.coordinator.n_layers}}};
        start.prompt_tokens = static_cast<std::int32_t>(lies_.below(1 << 20));
        input.start = std::move(start);
    }
    deliver(core::StageInputs{{input}});
}

// What a liar makes of a message that it was about to send; none: it is silent.
std::optional<core::CoordinatorMessage> FaultyCluster::twist(Machine& machine,
                                                             core::CoordinatorMessage message) {
    auto* produced = std::get_if<core::TokensProduced>(&message);
    if (produced != nullptr && machine.draws_wrong > 0) {
        machine.lied_as = machine.incarnation;
        machine.lied_before.insert(machine.incarnation);
        for (core::ProducedToken& token : produced->tokens) {
            if (lies_.chance(0.3)) token.token = (token.token + 1) % config_.vocab;
        }
    }
    if (!lies_.chance(kTwisted)) return message;
    machine.lied_as = machine.incarnation;
    machine.lied_before.insert(machine.incarnation);
    if (lies_.chance(0.3)) return std::nullopt;
    if (auto* report = std::get_if<core::WorkerReport>(&message)) {
        report->used_pages = any_number(lies_, report->total_pages);
    } else if (auto* ready = std::get_if<core::LayersReady>(&message)) {
        ready->total_pages = any_number(lies_, ready->total_pages);
    } else if (produced != nullptr && !produced->tokens.empty()) {
        std::vector<core::ProducedToken>& tokens = produced->tokens;
        const auto at = tokens.begin() + static_cast<std::ptrdiff_t>(lies_.below(tokens.size()));
        switch (lies_.below(4)) {
            case 0:
                tokens.erase(at);
                break;
            case 1:
                ++at->position;
                break;
            case 2:
                ++at->key.attempt;
                break;
            default:
                at->top.clear();
        }
    }
    return message;
}

}  // namespace helix::sim
