#include "model/arch/decoder.h"

// Gemma 2, 3 and 4: norms before and after attention and feed-forward, a gate of GELU, soft caps
// (2) or norms of heads (3, 4), and a window in most layers, which from Gemma 3 on have a rope base
// of their own. In Gemma 4 the others have fewer and larger heads, of which rope turns a part and
// whose values may be their keys; values are normed, too, scores are not scaled, and a layer ends
// with a factor. Its models with experts have a dense feed-forward beside them. Of E2B and E4B each
// layer has an input of its own, and the last layers share keys and values. EmbeddingGemma is a
// Gemma 3 that attends both ways, within windows, too; what is pooled of its states goes through
// two dense layers.

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

const DecoderTraits kGemmaEmbedding{.name = "gemma-embedding",
                                    .rope_pairs = RopePairs::halves,
                                    .qk_norm = QkNorm::heads,
                                    .output_norms = true,
                                    .full_attention_period = 6,
                                    .plain_windowed_rope = true,
                                    .windowed_rope_base = 10000.0F,
                                    .activation = Activation::gelu,
                                    .root_embedding_scale = true,
                                    .tied_by_default = true,
                                    .norms_less_one = true,
                                    .layers_scaled_by_hidden = 62,
                                    .encoder = true,
                                    .norms_as_decoder = true,
                                    .dense_embeddings = true};

const DecoderTraits kGemma4{.name = "gemma4",
                            .rope_pairs = RopePairs::halves,
                            .qk_norm = QkNorm::heads,
                            .experts = Presence::optional,
                            .expert_width_key = "expert_feed_forward_length",
                            .output_norms = true,
                            .full_attention_period = 6,
                            .plain_windowed_rope = true,
                            .windowed_rope_base = 10000.0F,
                            .windowed_heads = true,
                            .value_norm = true,
                            .values_may_be_keys = true,
                            .layer_scales = true,
                            .layer_inputs = true,
                            .attention_scale = 1.0F,
                            .dense_beside_experts = true,
                            .activation = Activation::gelu,
                            .root_embedding_scale = true,
                            .logit_softcap = 0.0F,
                            .tied_by_default = true};

}  // namespace helix::model
