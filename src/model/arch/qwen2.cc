#include "model/arch/decoder.h"

// Qwen 1.5, 2 and 2.5 with dense layers: a bias on queries, keys and values.

namespace helix::model {

const DecoderTraits kQwen2{
    .name = "qwen2", .rope_pairs = RopePairs::halves, .qkv_bias = Presence::always};

}  // namespace helix::model
