#include "model/arch/decoder.h"

// Nemotron 3 and 4, Minitron: LayerNorm with a bias, a feed-forward of squared ReLU without a gate,
// rope on a part of a head.

namespace helix::model {

const DecoderTraits kNemotron{.name = "nemotron",
                              .rope_pairs = RopePairs::halves,
                              .norm = NormKind::layer,
                              .norm_bias = true,
                              .activation = Activation::squared_relu,
                              .norms_less_one = true};

}  // namespace helix::model
