#pragma once

#include "base/result.h"
#include "model/arch/decoder.h"

namespace helix::model {

// The tensor of a classifier's head, as llama.cpp's conversion of Qwen3-Reranker writes it.
inline constexpr char kClassifierHead[] = "cls.output.weight";

// Finds the rows by which a model ranks documents: those of a classifier's head, the one labelled
// "yes" first, and else those of the tokens "yes" and "no" in the output head. None for a model
// that makes embeddings, for a head of less than two rows or without "yes" among its labels, for a
// vocabulary without these two tokens, and for one whose logits have a factor or a cap. The
// dimensions of config must be set.
base::Result<RankHead> read_rank_head(const GgufFile& file, const DecoderTraits& traits,
                                      const ModelConfig& config);

}  // namespace helix::model
