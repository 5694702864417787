#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/kernels/kernels.h"
#include "model/model_config.h"
#include "model/weight_source.h"
#include "spec/layer_range.h"

namespace helix::engine {

// What makes embeddings of tokens the rows that enter an encoder's first layer: to each are added
// its token type's row (the first one's, but see ModelConfig::separator) and its position's, and
// the sum is normed. In this machine's memory, with the same bits whatever the device.
class EncoderInput {
  public:
    // Of the model's tables; errors name the tensor.
    static base::Result<EncoderInput> load(model::WeightSource& source,
                                           const model::ModelConfig& config);
    // Bytes that it holds.
    static std::int64_t bytes(const model::ModelConfig& config);

    // How many of a whole text's tokens are of the first type; those behind them are of the second.
    std::int64_t first_kind(std::span<const spec::Token> tokens) const;

    // row: [hidden], a token's embedding at a position that the model has. second_kind: only where
    // first_kind() says so. Any thread.
    void finish(std::int32_t position, bool second_kind, std::span<float> row) const;

  private:
    const ops::Kernels* kernels_ = nullptr;
    float epsilon_ = 0;
    std::int32_t separator_ = -1;     // see ModelConfig
    std::vector<float> token_types_;  // [1 or 2, hidden] or empty
    std::vector<float> positions_;    // [positions, hidden] or empty
    std::vector<float> norm_;         // [hidden]
    std::vector<float> bias_;         // [hidden] or empty
};

}  // namespace helix::engine
