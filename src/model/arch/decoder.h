#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "model/arch/architecture.h"

// What the decoders of this folder have in common: attention of grouped heads with rope, a gated
// feed-forward or experts of that kind, RMS norms before both.

namespace helix::model {

enum class Presence { never, optional, always };

struct DecoderTraits {
    std::string_view name;  // also the beginning of the metadata keys
    RopePairs rope_pairs = RopePairs::adjacent;
    Presence qkv_bias = Presence::never;
    bool qk_norm = false;
    Presence experts = Presence::never;
    std::string_view expert_width_key;  // key of the width of an expert, after the name
};

// Architecture::read for a decoder with these traits.
base::Result<ModelConfig> read_decoder(const GgufFile& file, const DecoderTraits& traits);

// The whole key of a model's metadata, like "llama.rope.freq_base".
std::string metadata_key(const DecoderTraits& traits, std::string_view rest);
base::Error wrong_metadata(const GgufFile& file, std::string_view key, const std::string& text);

// Reads the keys rope.*: dimensions, base and scaling (none, linear, yarn). head_dim must be set.
base::Status read_rope(const GgufFile& file, const DecoderTraits& traits, ModelConfig& config);

}  // namespace helix::model
