#include "model/arch/decoder.h"

// Qwen 3 with dense layers: every head of queries and keys is normed before rope.

namespace helix::model {

const DecoderTraits kQwen3{
    .name = "qwen3", .rope_pairs = RopePairs::halves, .qk_norm = QkNorm::heads};

}  // namespace helix::model
