#include "model/arch/decoder.h"

// Granite 3 with dense layers, or experts in every layer: a llama whose embeddings, residuals,
// scores and logits have factors.

namespace helix::model {

const DecoderTraits kGranite{.name = "granite",
                             .rope_pairs = RopePairs::adjacent,
                             .scales = true,
                             .logit_scale = DecoderTraits::LogitScale::divides};

const DecoderTraits kGraniteMoe{.name = "granitemoe",
                                .rope_pairs = RopePairs::adjacent,
                                .experts = Presence::always,
                                .expert_width_key = "feed_forward_length",
                                .scales = true,
                                .logit_scale = DecoderTraits::LogitScale::divides};

}  // namespace helix::model
