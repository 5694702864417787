#include "model/arch/decoder.h"

// GLM-4 of 2025: norms before and after attention and feed-forward, half of each head is rotated.

namespace helix::model {

const DecoderTraits kGlm4{.name = "glm4",
                          .rope_pairs = RopePairs::adjacent,
                          .qkv_bias = Presence::optional,
                          .output_norms = true,
                          .fused_gate_up = true};

}  // namespace helix::model
