// What the observer is told.

#include "sim/throughput/loaded_cluster.h"

namespace helix::sim {

void LoadedCluster::note_batch(Machine& machine, const core::BatchPlan& plan, TimePoint end) {
    machine.observed = {machine.node, now_, end, machine.layers, 0, 0};
    machine.followed.clear();
    for (const core::BatchChunk& chunk : plan.chunks) {
        const auto rows = static_cast<std::int32_t>(chunk.tokens.size());
        const bool decode = rows == 1 + chunk.drafts && chunk.first_position > 0;
        (decode ? machine.observed.decodes : machine.observed.prompt_tokens) += rows;
        const std::uint64_t request = chunk.key.request.value;
        if (!requests_[request].followed) continue;
        machine.followed.push_back({request, machine.node, now_, end, chunk.layers, rows});
    }
}

void LoadedCluster::tell_computed(const Machine& machine) {
    setup_.observer->node_computed(machine.observed);
    for (const RequestWork& work : machine.followed) setup_.observer->request_computed(work);
}

void LoadedCluster::tell_carried(const Message& message) {
    const Passage& passage = message.passage;
    setup_.observer->link_carried({message.from, message.to, passage.begin, passage.left,
                                   message.bytes, passage.begin - message.posted});
    const auto moved = [&](core::RequestId id) {
        if (!requests_[id.value].followed) return;
        setup_.observer->request_moved(
            {id.value, message.from, message.to, message.posted, passage.begin, passage.arrives});
    };
    if (const auto* to_worker = std::get_if<core::WorkerMessage>(&message.content)) {
        const auto* inputs = std::get_if<core::StageInputs>(to_worker);
        if (inputs == nullptr) return;
        for (const core::StageInput& input : inputs->inputs) moved(input.key.request);
        return;
    }
    const auto& said = std::get<core::CoordinatorMessage>(message.content);
    const auto* tokens = std::get_if<core::TokensProduced>(&said);
    if (tokens == nullptr) return;
    for (const core::ProducedToken& token : tokens->tokens) moved(token.key.request);
}

}  // namespace helix::sim
