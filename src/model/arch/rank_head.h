#pragma once

#include "base/result.h"
#include "model/arch/decoder.h"

namespace helix::model {

// The tensor of a classifier's head, as llama.cpp's conversion of Qwen3-Reranker writes it.
inline constexpr char kClassifierHead[] = "cls.output.weight";
// Those that a cross-encoder has besides: the head's bias, and the dense layer before it.
inline constexpr char kClassifierHeadBias[] = "cls.output.bias";
inline constexpr char kClassifierDense[] = "cls.weight";
inline constexpr char kClassifierDenseBias[] = "cls.bias";

// Finds the rows by which a model ranks documents: those of a classifier's head, the one labelled
// "yes" first, and else those of the tokens "yes" and "no" in the output head. None for a model
// that makes embeddings, for a head of less than two rows or without "yes" among its labels, for a
// vocabulary without these two tokens, and for one whose logits have a factor or a cap. The
// dimensions of config must be set.
base::Result<RankHead> read_rank_head(const GgufFile& file, const DecoderTraits& traits,
                                      const ModelConfig& config);

// The head of a cross-encoder, whose four tensors must be there; errors name what is not. The
// dimensions of config must be set.
base::Result<RankHead> read_pair_head(const GgufFile& file, const ModelConfig& config);

}  // namespace helix::model
