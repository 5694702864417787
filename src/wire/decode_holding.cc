// What a worker has kept without a coordinator, for the next one.

#include "wire/decode_fields.h"

namespace helix::wire {
namespace {

using wire::get;  // of parts that several kinds have

Result<core::SequenceHeld> get(const pb::SequenceHeld& from, const SessionLimits& limits) {
    core::SequenceHeld held;
    held.key = get(from.key());
    TRY(held.pipeline, get_pipeline(from.pipeline(), limits));
    TRY_VOID(in_range("arrived", from.arrived(), 0, kMaxPosition));
    held.arrived = from.arrived();
    TRY_VOID(in_range("certain", from.certain(), 0, from.arrived()));
    held.certain = from.certain();
    held.swapped = from.swapped();
    held.rows_lost = from.rows_lost();
    TRY_VOID(in_range("drawn tokens", from.drawn_size(), 0, kMaxItems));
    for (const pb::ProducedToken& one : from.drawn()) {
        TRY(core::ProducedToken token, get(one));
        if (!held.drawn.empty()) {
            const core::ProducedToken& before = held.drawn.back();
            const bool beside = token.key.member == before.key.member + 1;
            const std::int64_t next = std::int64_t{before.position} + (beside ? 0 : 1);
            TRY_VOID(in_range("position of a drawn token", token.position, next, next));
        }
        held.drawn.push_back(std::move(token));
    }
    return held;
}

}  // namespace

Result<core::RememberedPlacement> get(const pb::RememberedPlacement& from,
                                      const SessionLimits& limits) {
    if (limits.n_layers == 0) return base::invalid("a placement before the model is known");
    TRY_VOID(in_range("holders", from.holders_size(), 1, kMaxWorkers));
    TRY_VOID(in_range("flows", from.flows_size(), 0, kMaxItems));
    core::RememberedPlacement placement;
    for (const pb::RememberedHolder& holder : from.holders()) {
        TRY_VOID(text("worker of a holder", holder.worker()));
        TRY(const core::LayerRange layers, get_layers(holder.layers(), limits));
        TRY_VOID(
            in_range("memory_bytes of a holder", holder.memory_bytes(), 0, std::int64_t{1} << 50));
        placement.holders.push_back({holder.worker(), layers, holder.memory_bytes()});
    }
    for (const pb::RememberedFlow& flow : from.flows()) {
        TRY_VOID(text("from of a flow", flow.from()));
        TRY_VOID(text("to of a flow", flow.to()));
        TRY_VOID(finite("tokens_per_s of a flow", flow.tokens_per_s(), 0));
        placement.flows.push_back({flow.from(), flow.to(), flow.tokens_per_s()});
    }
    TRY_VOID(core::check_remembered(placement, limits.n_layers));
    return placement;
}

Result<Message> decode_holding(const pb::Holding& from, const SessionLimits& limits) {
    core::Holding message;
    message.epoch = from.epoch();
    TRY(message.layers, get_layers(from.layers(), limits));
    if (from.has_placement()) {
        TRY(message.placement, get(from.placement(), limits));
    }
    TRY_VOID(in_range("sequences", from.sequences_size(), 0, kMaxItems));
    for (const pb::SequenceHeld& one : from.sequences()) {
        TRY(core::SequenceHeld held, get(one, limits));
        message.sequences.push_back(std::move(held));
    }
    return Message{std::move(message)};
}

}  // namespace helix::wire
