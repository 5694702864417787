#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "model/weight_source.h"
#include "spec/layer_range.h"

namespace helix::engine {

// How far a model's predictions are from another's, after each token of some texts.
struct ModelDistance {
    std::int64_t tokens = 0;  // that were predicted
    // exp of the mean of -log p of the token that follows.
    double base_perplexity = 0;
    double perplexity = 0;
    // Of the sums over the vocabulary of p (log p - log q), with the base's p: their mean, how
    // uncertain that is (one standard error), their 99th percentile and the greatest.
    double mean_kl = 0;
    double mean_kl_error = 0;
    double p99_kl = 0;
    double max_kl = 0;
    double same_top = 0;  // the share of tokens where both hold the same one for the likeliest
};

struct DistanceOptions {
    int threads = 0;  // 0: one for each core
    // Told how many tokens went through both, and of how many; may be empty.
    std::function<void(std::uint64_t done, std::uint64_t total)> on_progress;
};

// Both must have the same vocabulary. Each text stands for itself; one of them at least has two
// tokens.
base::Result<ModelDistance> measure_distance(std::shared_ptr<model::WeightSource> base,
                                             std::shared_ptr<model::WeightSource> other,
                                             const std::vector<std::vector<spec::Token>>& texts,
                                             const DistanceOptions& options);

}  // namespace helix::engine
