#include "model/arch/decoder.h"

// Qwen 3 with experts in every layer.

namespace helix::model {
namespace {

constexpr DecoderTraits kQwen3MoeTraits{.name = "qwen3moe",
                                        .rope_pairs = RopePairs::halves,
                                        .qkv_bias = Presence::never,
                                        .qk_norm = true,
                                        .experts = Presence::always,
                                        .expert_width_key = "expert_feed_forward_length"};

}  // namespace

const Architecture kQwen3Moe{
    "qwen3moe", [](const GgufFile& file) { return read_decoder(file, kQwen3MoeTraits); }};

}  // namespace helix::model
