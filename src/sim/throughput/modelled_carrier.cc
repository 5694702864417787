#include "sim/throughput/modelled_carrier.h"

#include <utility>
#include <variant>

#include "base/prefetch.h"

namespace helix::sim {
namespace {

constexpr double kPartBytes = 64;  // of a message, and of each sequence's part of it

}  // namespace

double ModelledCarrier::bytes_of(const SimMessage& message) const {
    const auto token_bytes = static_cast<double>(model_.token_bytes);
    double bytes = kPartBytes;
    if (const auto* said = std::get_if<core::CoordinatorMessage>(&message.content)) {
        const auto* produced = std::get_if<core::TokensProduced>(said);
        if (produced == nullptr) return bytes;
        return bytes + static_cast<double>(produced->tokens.size()) * (kPartBytes + token_bytes);
    }
    const auto* inputs =
        std::get_if<core::StageInputs>(&std::get<core::WorkerMessage>(message.content));
    if (inputs == nullptr) return bytes;
    const bool activations = message.from != spec::kCoordinator;
    for (const core::StageInput& input : inputs->inputs) {
        bytes += kPartBytes;
        if (activations) {
            bytes += input.payload.rows *
                     static_cast<double>(model_.activation_bytes_per_token + model_.token_bytes);
        } else {
            bytes += static_cast<double>(input.tokens.size()) * token_bytes;
        }
    }
    return bytes;
}

void ModelledCarrier::send(SimMessage message) {
    Journey journey;
    journey.bytes = bytes_of(message);
    journey.posted = clock_.now();
    journey.passage = network_.send(message.from, message.to, journey.bytes, clock_.now());
    std::uint32_t slot = 0;
    if (free_slots_.empty()) {
        slot = static_cast<std::uint32_t>(carried_.size());
        carried_.push_back({std::move(message), journey});
    } else {
        slot = free_slots_.back();
        free_slots_.pop_back();
        carried_[slot].message = std::move(message);
        carried_[slot].journey = journey;
    }
    clock_.at(journey.passage.arrives, [this, slot] { arrive(slot); },
              {[](const void* whom, std::uint32_t which, int step) {
                   static_cast<const ModelledCarrier*>(whom)->prepare(which, step);
               },
               this, slot});
}

void ModelledCarrier::prepare(std::uint32_t slot, int step) const {
    if (step == 0) return base::prefetch<sizeof(Carried)>(&carried_[slot]);
    if (expect_) expect_(carried_[slot].message, step);
}

void ModelledCarrier::arrive(std::uint32_t slot) {
    Carried carried = std::move(carried_[slot]);
    free_slots_.push_back(slot);
    if (watch_) watch_(carried.message, carried.journey);
    receive_(std::move(carried.message));
}

}  // namespace helix::sim
