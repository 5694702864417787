#pragma once

#include <string_view>

#include "base/result.h"
#include "model/gguf.h"
#include "model/model_config.h"

// A family of models: one file in this folder, and a row of the table in model_config.cc. What its
// models are made of is data: see decoder.h.

namespace helix::model {

struct DecoderTraits;

extern const DecoderTraits kLlama;
extern const DecoderTraits kQwen2;
extern const DecoderTraits kQwen2Moe;
extern const DecoderTraits kQwen3;
extern const DecoderTraits kQwen3Moe;
extern const DecoderTraits kSmolLm3;
extern const DecoderTraits kOlmo2;
extern const DecoderTraits kGlm4;
extern const DecoderTraits kPhi3;
extern const DecoderTraits kGranite;
extern const DecoderTraits kGraniteMoe;
extern const DecoderTraits kCommandR;
extern const DecoderTraits kCohere2;
extern const DecoderTraits kGemma2;
extern const DecoderTraits kGemma3;
extern const DecoderTraits kGemma4;
extern const DecoderTraits kGemmaEmbedding;
extern const DecoderTraits kGlm4Moe;
extern const DecoderTraits kMiniMaxM2;
extern const DecoderTraits kGptOss;
extern const DecoderTraits kLlama4;
extern const DecoderTraits kNemotron;
extern const DecoderTraits kBert;
extern const DecoderTraits kJinaBertV2;
extern const DecoderTraits kJinaBertV3;
extern const DecoderTraits kModernBert;
extern const DecoderTraits kNomicBert;
extern const DecoderTraits kNomicBertMoe;

// What an architecture that is known and not supported would need, in a few words; "" for others.
std::string_view lacking_mechanisms(std::string_view architecture);

// The tensor of this name with exactly this shape. One-dimensional ones (factors), norms and biases
// are float.
base::Result<const TensorInfo*> expect_tensor(const GgufFile& file, std::string_view name,
                                              const std::vector<std::int64_t>& shape);
// The integer at key, within [low, high].
base::Result<std::int32_t> expect_int(const GgufFile& file, std::string_view key, std::int64_t low,
                                      std::int64_t high);
// The same; returns otherwise when the key is absent.
base::Result<std::int32_t> optional_int(const GgufFile& file, std::string_view key,
                                        std::int64_t low, std::int64_t high,
                                        std::int32_t otherwise);
// A finite number above zero; returns otherwise when the key is absent.
base::Result<float> optional_positive(const GgufFile& file, std::string_view key, float otherwise);

}  // namespace helix::model
