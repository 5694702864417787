#include "model/arch/decoder.h"

// Gemma 2 and 3: norms before and after attention and feed-forward, a gate of GELU, soft caps (2)
// or norms of heads (3), and a window in most layers, which in Gemma 3 have a rope base of their
// own.

namespace helix::model {

const DecoderTraits kGemma2{.name = "gemma2",
                            .rope_pairs = RopePairs::halves,
                            .output_norms = true,
                            .full_attention_period = 2,
                            .activation = Activation::gelu,
                            .root_embedding_scale = true,
                            .attention_softcap = 50.0F,
                            .logit_softcap = 30.0F,
                            .tied_by_default = true,
                            .norms_less_one = true,
                            .layers_scaled_by_hidden = 46};

const DecoderTraits kGemma3{.name = "gemma3",
                            .rope_pairs = RopePairs::halves,
                            .qk_norm = QkNorm::heads,
                            .output_norms = true,
                            .full_attention_period = 6,
                            .plain_windowed_rope = true,
                            .windowed_rope_base = 10000.0F,
                            .activation = Activation::gelu,
                            .root_embedding_scale = true,
                            .logit_softcap = 0.0F,
                            .tied_by_default = true,
                            .norms_less_one = true,
                            .layers_scaled_by_hidden = 62};

}  // namespace helix::model
