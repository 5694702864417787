#include "engine/runner/encoder_input.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>

#include "base/check.h"
#include "base/index.h"
#include "model/arch/decoder.h"

namespace helix::engine {
namespace {

// The first floats of a tensor of type f32.
base::Result<std::vector<float>> first_floats(model::WeightSource& source, const char* name,
                                              std::int64_t count) {
    const model::TensorInfo* info = source.file().find_tensor(name);
    CHECK(info != nullptr && info->type == model::TensorType::f32);
    TRY(const std::span<const std::byte> bytes, source.tensor(name));
    std::vector<float> values(base::size_of(count));
    const std::size_t size = values.size() * sizeof(float);
    const bool there = bytes.size() >= size;
    if (there) std::memcpy(values.data(), bytes.data(), size);
    source.release(name);
    if (there) return values;
    return base::invalid(
        fmt::format("tensor {}: {} bytes expected, {} found", name, size, info->bytes));
}

}  // namespace

base::Result<EncoderInput> EncoderInput::load(model::WeightSource& source,
                                              const model::ModelConfig& config) {
    const std::int64_t hidden = config.hidden;
    EncoderInput input;
    input.kernels_ = &ops::kernels(ops::best_isa());
    input.epsilon_ = config.norm_epsilon;
    if (config.n_token_types > 0) {
        TRY(input.token_type_, first_floats(source, model::kTokenTypeTable, hidden));
    }
    if (config.n_positions > 0) {
        TRY(input.positions_,
            first_floats(source, model::kPositionTable, config.n_positions * hidden));
    }
    TRY(input.norm_, first_floats(source, model::kEmbeddingNorm, hidden));
    TRY(input.bias_, first_floats(source, model::kEmbeddingNormBias, hidden));
    return input;
}

std::int64_t EncoderInput::bytes(const model::ModelConfig& config) {
    const std::int64_t rows = std::int64_t{config.n_positions} + (config.n_token_types > 0 ? 1 : 0);
    return (rows + 2) * config.hidden * static_cast<std::int64_t>(sizeof(float));
}

void EncoderInput::finish(std::int32_t position, std::span<float> row) const {
    const std::size_t hidden = row.size();
    for (std::size_t i = 0; i < token_type_.size(); ++i) row[i] += token_type_[i];
    if (!positions_.empty()) {
        const auto own = std::span(positions_).subspan(base::size_of(position) * hidden, hidden);
        for (std::size_t i = 0; i < hidden; ++i) row[i] += own[i];
    }
    kernels_->layer_norm(row.data(), norm_.data(), std::ssize(row), epsilon_, row.data());
    for (std::size_t i = 0; i < hidden; ++i) row[i] += bias_[i];
}

}  // namespace helix::engine
