#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/model_config.h"
#include "model/weight_source.h"

// The score of a document: how the model divides its odds among the answers that it may give, of
// which the first is "yes". It is computed on the host and in double, from a few rows of a head, so
// that it has the same bits on whatever device, and with whomever the prompt shared its batches.

namespace helix::engine {

// The rows [head.rows, hidden] that head names, as floats. The tensor stays in use: the caller
// releases it. Errors name it.
base::Result<std::vector<float>> load_rank_rows(model::WeightSource& weights,
                                                const model::RankHead& head, std::int64_t hidden);

// A matrix [rows, columns] of whatever type, as floats, whose tensor is released. Errors name it.
base::Result<std::vector<float>> load_whole_matrix(model::WeightSource& weights, const char* name,
                                                   std::int64_t rows, std::int64_t columns);

// The first of the softmax over the rows' products with a state, from 0 to 1. rows: [n,
// state.size()]. Error internal: a number is broken.
base::Result<float> rank_score(std::span<const float> rows, std::span<const double> state);

}  // namespace helix::engine
