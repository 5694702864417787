#include "model/arch/decoder.h"

// LLaMA 1, 2, 3, 3.1 and what else is stored under that name: Mistral, TinyLlama, and Mixtral with
// experts in the place of the feed-forward. Its converters permute the rows of attn_q and attn_k so
// that rope turns adjacent elements.

namespace helix::model {

const DecoderTraits kLlama{.name = "llama",
                           .rope_pairs = RopePairs::adjacent,
                           .qkv_bias = Presence::optional,
                           .experts = Presence::optional,
                           .expert_width_key = "feed_forward_length"};

}  // namespace helix::model
