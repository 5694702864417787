#include "model/arch/decoder.h"

// SmolLM 3: a llama in which every fourth layer has no rope.

namespace helix::model {

const DecoderTraits kSmolLm3{
    .name = "smollm3", .rope_pairs = RopePairs::adjacent, .no_rope_period = 4};

}  // namespace helix::model
