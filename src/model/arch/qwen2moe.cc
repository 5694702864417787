#include "model/arch/decoder.h"

// Qwen 1.5 and 2 with experts in every layer: what rows get of these is their share of the softmax
// over all, and what they get of one more, which every row visits, is the sigmoid of a score.

namespace helix::model {

const DecoderTraits kQwen2Moe{.name = "qwen2moe",
                              .rope_pairs = RopePairs::halves,
                              .qkv_bias = Presence::always,
                              .experts = Presence::always,
                              .expert_width_key = "expert_feed_forward_length",
                              .shared_gate = true,
                              .normalises_expert_weights = false};

}  // namespace helix::model
