#include "model/arch/decoder.h"

// Llama 4: three of four layers attend within chunks and have rope, after which queries and keys of
// some models are normed without weights. The others attend to all positions, without rope, and
// their queries grow with the position. A row visits one expert in every or every second layer, of
// which it gets the row times the sigmoid of its score, and one more that all rows visit.

namespace helix::model {

const DecoderTraits kLlama4{.name = "llama4",
                            .rope_pairs = RopePairs::adjacent,
                            .qk_norm = QkNorm::unweighted,
                            .experts = Presence::always,
                            .expert_width_key = "expert_feed_forward_length",
                            .gating = Gating::sigmoid,
                            .full_attention_period = 4,
                            .rope_with_window_only = true,
                            .chunk_positions = 8192,
                            .temperature_length = 8192,
                            .temperature_scale = 0.1F,
                            .weighted_expert_inputs = true,
                            .shared_expert = true,
                            .expert_period = true,
                            .experts_without_qk_norm = 128};

}  // namespace helix::model
