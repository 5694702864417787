#include "model/arch/decoder.h"

// gpt-oss: heads with sinks, a window in every second layer, biases everywhere, and experts whose
// activation is clamped.

namespace helix::model {

const DecoderTraits kGptOss{.name = "gpt-oss",
                            .rope_pairs = RopePairs::halves,
                            .qkv_bias = Presence::always,
                            .output_bias = true,
                            .attention_sinks = true,
                            .experts = Presence::always,
                            .expert_width_key = "expert_feed_forward_length",
                            .expert_biases = true,
                            .feed_forward_norm = "post_attention_norm.weight",
                            .full_attention_period = 2,
                            .activation = Activation::clamped_silu};

}  // namespace helix::model
