#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/importance.h"
#include "model/weight_source.h"
#include "spec/layer_range.h"

namespace helix::engine {

struct InputSquaresOptions {
    int threads = 0;  // 0: one for each core
    // Told how many tokens went through the model, and of how many; may be empty.
    std::function<void(std::uint64_t done, std::uint64_t total)> on_progress;
};

// Puts texts through a model, and sums for each of its matrices the squares of what comes to its
// columns: an importance matrix, without the names of its data. Whatever the threads, the sums are
// the same. Each text stands for itself and has at least one token.
base::Result<model::ImportanceMatrix> measure_input_squares(
    std::shared_ptr<model::WeightSource> weights,
    const std::vector<std::vector<spec::Token>>& texts, const InputSquaresOptions& options);

}  // namespace helix::engine
