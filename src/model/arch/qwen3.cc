#include "model/arch/decoder.h"

// Qwen 3 with dense layers: every head of queries and keys is normed before rope.

namespace helix::model {
namespace {

constexpr DecoderTraits kQwen3Traits{.name = "qwen3",
                                     .rope_pairs = RopePairs::halves,
                                     .qkv_bias = Presence::never,
                                     .qk_norm = true,
                                     .experts = Presence::never,
                                     .expert_width_key = {}};

}  // namespace

const Architecture kQwen3{"qwen3",
                          [](const GgufFile& file) { return read_decoder(file, kQwen3Traits); }};

}  // namespace helix::model
