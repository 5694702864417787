#include "model/arch/decoder.h"

// GLM 4.5, 4.6 and 4.7: experts that are chosen by sigmoids with a bias, one more that every row
// visits, and first layers without experts. The larger ones norm heads of queries and keys.

namespace helix::model {

const DecoderTraits kGlm4Moe{.name = "glm4moe",
                             .rope_pairs = RopePairs::halves,
                             .qkv_bias = Presence::optional,
                             .qk_norm = QkNorm::heads,
                             .qk_norm_optional = true,
                             .experts = Presence::always,
                             .expert_width_key = "expert_feed_forward_length",
                             .gating = Gating::sigmoid,
                             .feed_forward_norm = "post_attention_norm.weight",
                             .expert_groups = true};

}  // namespace helix::model
