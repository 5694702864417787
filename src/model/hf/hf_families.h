#pragma once

#include <span>
#include <string_view>

#include "model/hf/hf_config.h"

namespace helix::model {

// Which biases attention_bias means.
enum class HfAttentionBias {
    with_output,  // also one of the output projection, of which only always_all knows
    qkv,
    always_qkv,  // whatever the file says
    always_all,  // and one of the output projection
};

// What a model_type is to us, besides what its config.json says.
struct HfFamily {
    std::string_view type;          // model_type
    std::string_view architecture;  // ours
    const char* experts_key = nullptr;
    const char* width_key = "intermediate_size";  // of the feed-forward or an expert
    HfAttentionBias bias = HfAttentionBias::with_output;
    bool window_is_opt_in = false;  // use_sliding_window must be true
    // The share of a head that is rotated where partial_rotary_factor does not say it; 0: all of
    // it, always.
    float partial_rotary = 0.0F;
    bool adjacent = false;  // the weights are for a rope of adjacent elements
    HfNormNames norms = {};
    HfExperts experts = HfExperts::usual;
    bool normalises = false;  // the experts' weights, where norm_topk_prob does not say it
    const char* feed_forward = "mlp.";
    // Where the file says nothing.
    double rope_base = 10000;
    double norm_epsilon = 1e-6;
    const char* epsilon_key = "rms_norm_eps";
    const char* activation = "silu";
    bool both_ways = false;  // use_bidirectional_attention is true, and the class has no head
};

std::span<const HfFamily> hf_families();

}  // namespace helix::model
