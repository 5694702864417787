#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/backend/backend.h"
#include "model/weight_source.h"
#include "wire/messages.h"

namespace helix::node {

// What a worker may use of its machine for the model that its coordinator serves.
struct BackendRequest {
    wire::Welcome model;
    std::int64_t memory_bytes = 0;
    std::int64_t swap_bytes = 0;  // besides, for KV pages that are swapped out
    std::int32_t threads = 0;
    // The model's weights; may block for a transfer of the header. Called on the engine's thread.
    std::function<base::Result<std::shared_ptr<model::WeightSource>>()> weights;
};

struct SelfProfile {
    double decode_s_per_layer = 0;
    double decode_batch_s_per_layer = 0;
    double prefill_s_per_token_layer = 0;
};

// A kind of engine ("cpu", "modelled"). Called on the engine's thread.
class BackendProvider {
  public:
    virtual ~BackendProvider() = default;
    virtual std::string name() const = 0;
    // Tensor parallel, each with threads of its own.
    virtual std::int32_t ranks() const { return 1; }
    virtual base::Result<std::unique_ptr<engine::Backend>> make(const BackendRequest& request) = 0;
    // How fast this machine is with this model; under a second.
    virtual base::Result<SelfProfile> profile(const BackendRequest& request) = 0;
};

}  // namespace helix::node
