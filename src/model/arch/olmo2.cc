#include "model/arch/decoder.h"

// OLMo 2 and 3: what attention and feed-forward add is normed, and not what they read; queries and
// keys are normed as a whole. In OLMo 3 three of four layers have a window and rope without
// scaling.

namespace helix::model {

const DecoderTraits kOlmo2{.name = "olmo2",
                           .rope_pairs = RopePairs::halves,
                           .qk_norm = QkNorm::projection,
                           .input_norms = false,
                           .output_norms = true,
                           .full_attention_period = 4,
                           .plain_windowed_rope = true};

}  // namespace helix::model
