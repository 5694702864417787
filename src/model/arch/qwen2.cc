#include "model/arch/decoder.h"

// Qwen 1.5, 2 and 2.5 with dense layers: a bias on queries, keys and values.

namespace helix::model {
namespace {

constexpr DecoderTraits kQwen2Traits{.name = "qwen2",
                                     .rope_pairs = RopePairs::halves,
                                     .qkv_bias = Presence::always,
                                     .qk_norm = false,
                                     .experts = Presence::never,
                                     .expert_width_key = {}};

}  // namespace

const Architecture kQwen2{"qwen2",
                          [](const GgufFile& file) { return read_decoder(file, kQwen2Traits); }};

}  // namespace helix::model
