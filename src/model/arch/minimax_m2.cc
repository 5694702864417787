#include "model/arch/decoder.h"

// MiniMax M2: queries and keys normed as a whole, rope on a part of a head, and experts that are
// chosen by sigmoids with a bias.

namespace helix::model {

const DecoderTraits kMiniMaxM2{.name = "minimax-m2",
                               .rope_pairs = RopePairs::halves,
                               .qk_norm = QkNorm::projection,
                               .experts = Presence::always,
                               .expert_width_key = "expert_feed_forward_length",
                               .gating = Gating::sigmoid};

}  // namespace helix::model
