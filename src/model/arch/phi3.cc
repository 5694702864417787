#include "model/arch/decoder.h"

// Phi 3 and 4: queries, keys and values are one tensor, gate and up another; contexts beyond the
// trained one by longrope.

namespace helix::model {

const DecoderTraits kPhi3{.name = "phi3",
                          .rope_pairs = RopePairs::halves,
                          .fused_qkv = true,
                          .fused_gate_up = true,
                          .longrope = true};

}  // namespace helix::model
