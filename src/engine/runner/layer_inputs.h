#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/device/device.h"
#include "engine/device/weight_loader.h"
#include "model/model_config.h"
#include "model/weight_source.h"
#include "spec/layer_range.h"

namespace helix::engine {

// What each layer reads of each row's token, beside the residuals, in models that have such inputs
// (ModelConfig::layer_input, Gemma 4's E2B and E4B). Of layer l and a token t with the embedding e,
// which is scaled:
//     (norm(W_l e / sqrt(hidden)) + sqrt(width) * table[t][l]) / sqrt(2).
// Every worker makes those of its own layers: they depend on the token alone, and so does not a bit
// of them on who else has layers. The table stays in this machine's memory.
class LayerInputs {
  public:
    // Bytes that load() takes.
    static base::Result<std::int64_t> bytes(const WeightLoader& loader,
                                            const model::ModelConfig& config);
    // Of such a model. Errors name the tensor. The source must outlive this object, or drop().
    base::Status load(model::WeightSource& source, WeightLoader& loader,
                      const model::ModelConfig& config);
    void drop(model::WeightSource& source);
    bool loaded() const { return !table_.empty(); }

    // The rows that the next layers run: their tokens, and their scaled embeddings [rows, hidden].
    // Inputs of the layers can then be made.
    base::Status set_rows(Device& device, std::span<const spec::Token> tokens,
                          std::span<const float> embedded, spec::LayerRange layers);
    // [rows, width] of one of these layers, until the next call.
    base::Result<const Buffer*> make(Device& device, std::int32_t layer);

  private:
    std::int64_t hidden_ = 0;
    std::int64_t width_ = 0;
    float epsilon_ = 0;
    model::TensorType type_ = model::TensorType::f32;   // of the table
    std::span<const std::byte> table_;                  // [vocabulary, layers * width]
    std::int64_t token_bytes_ = 0;                      // of one of its rows
    std::vector<std::unique_ptr<Matrix>> projections_;  // [layers] of [width, hidden]
    std::unique_ptr<Buffer> norm_;                      // [width]

    std::int64_t rows_ = 0;
    spec::LayerRange layers_;
    std::vector<float> host_;            // looked up, on their way to the device
    std::unique_ptr<Buffer> embedded_;   // [rows, hidden]
    std::unique_ptr<Buffer> looked_up_;  // [layers_, rows, width]
    std::unique_ptr<Buffer> of_layer_;   // [rows, width], of what was looked up
    std::unique_ptr<Buffer> inputs_;     // [rows, width]
};

}  // namespace helix::engine
