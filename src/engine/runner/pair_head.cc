#include "engine/runner/pair_head.h"

#include <cmath>
#include <cstddef>
#include <span>

#include <fmt/format.h>

#include "base/check.h"
#include "engine/runner/host_floats.h"
#include "engine/runner/rank_rows.h"
#include "model/arch/rank_head.h"

namespace helix::engine {

base::Result<PairHead> PairHead::load(model::WeightSource& source, std::int64_t hidden) {
    PairHead head;
    TRY(head.dense_, load_whole_matrix(source, model::kClassifierDense, hidden, hidden));
    TRY(head.dense_bias_, first_floats(source, model::kClassifierDenseBias, hidden));
    TRY(head.weights_, load_whole_matrix(source, model::kClassifierHead, 1, hidden));
    TRY(const std::vector<float> bias, first_floats(source, model::kClassifierHeadBias, 1));
    head.bias_ = bias[0];
    return head;
}

std::int64_t PairHead::bytes(std::int64_t hidden) {
    return (hidden * hidden + 2 * hidden + 1) * static_cast<std::int64_t>(sizeof(float));
}

base::Result<float> PairHead::score(std::span<const double> state) const {
    const std::size_t hidden = state.size();
    CHECK(weights_.size() == hidden);
    double logit = static_cast<double>(bias_);
    for (std::size_t row = 0; row < hidden; ++row) {
        const auto weights = std::span(dense_).subspan(row * hidden, hidden);
        const double sum = add_products(static_cast<double>(dense_bias_[row]), weights, state);
        logit += static_cast<double>(weights_[row]) * std::tanh(sum);
    }
    if (!std::isfinite(logit)) {
        return base::Error{base::Errc::internal,
                           fmt::format("the logit of the score is {}", logit)};
    }
    return static_cast<float>(1 / (1 + std::exp(-logit)));
}

}  // namespace helix::engine
