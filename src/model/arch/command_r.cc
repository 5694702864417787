#include "model/arch/decoder.h"

// Command R, and Command R7B and A (cohere2): LayerNorm, of which attention and feed-forward read
// the same row. Command R+ norms heads of queries and keys so, too, each with weights of its own.
// In the later ones three of four layers have a window, and these alone have rope.

namespace helix::model {

const DecoderTraits kCommandR{.name = "command-r",
                              .rope_pairs = RopePairs::adjacent,
                              .qk_norm = QkNorm::centred,
                              .qk_norm_optional = true,
                              .norm = NormKind::layer,
                              .parallel_blocks = true,
                              .logit_scale = DecoderTraits::LogitScale::multiplies,
                              .tied_by_default = true};

const DecoderTraits kCohere2{.name = "cohere2",
                             .rope_pairs = RopePairs::adjacent,
                             .full_attention_period = 4,
                             .rope_with_window_only = true,
                             .norm = NormKind::layer,
                             .parallel_blocks = true,
                             .logit_scale = DecoderTraits::LogitScale::multiplies,
                             .tied_by_default = true};

}  // namespace helix::model
