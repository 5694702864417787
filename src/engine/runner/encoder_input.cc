#include "engine/runner/encoder_input.h"

#include <algorithm>
#include <cstddef>

#include "base/index.h"
#include "engine/runner/host_floats.h"
#include "model/arch/decoder.h"

namespace helix::engine {

base::Result<EncoderInput> EncoderInput::load(model::WeightSource& source,
                                              const model::ModelConfig& config) {
    const std::int64_t hidden = config.hidden;
    EncoderInput input;
    input.kernels_ = &ops::kernels(ops::best_isa());
    input.epsilon_ = config.norm_epsilon;
    input.separator_ = config.separator;
    if (config.n_token_types > 0) {
        const std::int64_t kinds = config.separator >= 0 ? 2 : 1;
        TRY(input.token_types_, first_floats(source, model::kTokenTypeTable, kinds * hidden));
    }
    if (config.n_positions > 0) {
        TRY(input.positions_,
            first_floats(source, model::kPositionTable, config.n_positions * hidden));
    }
    TRY(input.norm_, first_floats(source, model::kEmbeddingNorm, hidden));
    if (config.sum_norms) {
        TRY(input.bias_, first_floats(source, model::kEmbeddingNormBias, hidden));
    }
    return input;
}

std::int64_t EncoderInput::bytes(const model::ModelConfig& config) {
    const std::int64_t kinds = config.n_token_types == 0 ? 0 : config.separator >= 0 ? 2 : 1;
    const std::int64_t rows = std::int64_t{config.n_positions} + kinds;
    return (rows + (config.sum_norms ? 2 : 1)) * config.hidden *
           static_cast<std::int64_t>(sizeof(float));
}

std::int64_t EncoderInput::first_kind(std::span<const spec::Token> tokens) const {
    if (separator_ < 0) return std::ssize(tokens);
    const auto found = std::find(tokens.begin(), tokens.end(), separator_);
    return found == tokens.end() ? std::ssize(tokens) : found - tokens.begin() + 1;
}

void EncoderInput::finish(std::int32_t position, bool second_kind, std::span<float> row) const {
    const std::size_t hidden = row.size();
    if (!token_types_.empty()) {
        const auto kind = std::span(token_types_).subspan(second_kind ? hidden : 0, hidden);
        for (std::size_t i = 0; i < hidden; ++i) row[i] += kind[i];
    }
    if (!positions_.empty()) {
        const auto own = std::span(positions_).subspan(base::size_of(position) * hidden, hidden);
        for (std::size_t i = 0; i < hidden; ++i) row[i] += own[i];
    }
    kernels_->layer_norm(row.data(), norm_.data(), std::ssize(row), epsilon_, row.data());
    for (std::size_t i = 0; i < bias_.size(); ++i) row[i] += bias_[i];
}

}  // namespace helix::engine
