#pragma once

#include <cstdint>
#include <string>

namespace helix::spec {

// What placement, routing and the simulator need to know of a model; the engine's own view is
// model::ModelConfig. Sizes are in bytes, per layer or per token as the name says.
struct ModelSpec {
    std::string name;
    std::int32_t n_layers = 0;
    std::int64_t layer_bytes = 0;                 // weights of one layer, as stored
    std::int64_t embedding_bytes = 0;             // held by whoever runs layer 0
    std::int64_t head_bytes = 0;                  // output norm and head: whoever runs layer L-1
    std::int64_t activation_bytes_per_token = 0;  // what crosses a link between two stages
    std::int64_t token_bytes = 4;                 // what crosses a link to or from the coordinator
    std::int64_t kv_bytes_per_token_layer = 0;
    double flops_per_token_layer = 0;  // of what a token uses; a multiply-add counts as two
    std::int32_t context_length = 0;
    // Mixture of experts: the part of layer_bytes that is experts, of which a token uses
    // n_experts_used of n_experts. All three are 0 in a dense model.
    std::int64_t layer_expert_bytes = 0;
    std::int32_t n_experts = 0;
    std::int32_t n_experts_used = 0;
};

// The bytes of a layer that a batch of this many tokens reads: all of a dense layer; of the experts
// those that some token is expected to use if all are equally likely.
double layer_bytes_read(const ModelSpec& model, double tokens);

}  // namespace helix::spec
