#include "model/arch/decoder.h"

// Qwen 3 with experts in every layer.

namespace helix::model {

const DecoderTraits kQwen3Moe{.name = "qwen3moe",
                              .rope_pairs = RopePairs::halves,
                              .qk_norm = QkNorm::heads,
                              .experts = Presence::always,
                              .expert_width_key = "expert_feed_forward_length"};

}  // namespace helix::model
