#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/arch/architecture.h"
#include "engine/device/device.h"
#include "engine/device/weight_loader.h"
#include "model/model_config.h"

// The parts that decoder layers are put together from. Each is its weights for one layer, and a
// runner with the work space that all layers share. A runner adds its part to the rows' residuals;
// rows do not see each other, except through the keys and values of their own sequence.

namespace helix::engine {

// "blk.7.attn_q.weight"
std::string layer_tensor(std::int32_t layer, std::string_view what);
// Bytes of these tensors of a layer, as loaded.
base::Result<std::int64_t> tensors_bytes(const WeightLoader& loader, std::int32_t layer,
                                         const std::vector<std::string>& names);

// The rows' residuals after an RMS norm.
class NormedRows {
  public:
    // weight: [hidden].
    base::Status run(Device& device, const LayerRows& rows, const Buffer& weight, float epsilon);
    const Buffer& values() const { return *values_; }  // [rows, hidden]

  private:
    std::unique_ptr<Buffer> values_;
};

// x += W_o attention(norm(x)), over paged keys and values.
struct AttentionWeights {
    std::unique_ptr<Buffer> norm;                    // [hidden]
    std::unique_ptr<Matrix> q, k, v;                 // [heads * head_dim, hidden]
    std::unique_ptr<Buffer> q_bias, k_bias, v_bias;  // [heads * head_dim] or null
    std::unique_ptr<Buffer> q_norm, k_norm;          // [head_dim] or null
    std::unique_ptr<Matrix> output;                  // [hidden, n_heads * head_dim]

    static std::vector<std::string> tensors(const model::ModelConfig& config);
    static base::Result<AttentionWeights> load(WeightLoader& loader,
                                               const model::ModelConfig& config,
                                               std::int32_t layer);
};

class AttentionRunner {
  public:
    base::Status run(Device& device, const model::ModelConfig& config,
                     const AttentionWeights& weights, std::int32_t layer, const LayerRows& rows,
                     NormedRows& normed);

  private:
    std::unique_ptr<Buffer> q_, k_, v_, attended_;
};

// x += W_down (silu(W_gate n) * W_up n), n = norm(x).
struct FeedForwardWeights {
    std::unique_ptr<Buffer> norm;      // [hidden]
    std::unique_ptr<Matrix> gate, up;  // [ffn, hidden]
    std::unique_ptr<Matrix> down;      // [hidden, ffn]

    static std::vector<std::string> tensors();
    static base::Result<FeedForwardWeights> load(WeightLoader& loader,
                                                 const model::ModelConfig& config,
                                                 std::int32_t layer);
};

class FeedForwardRunner {
  public:
    base::Status run(Device& device, const model::ModelConfig& config,
                     const FeedForwardWeights& weights, const LayerRows& rows, NormedRows& normed);

  private:
    std::unique_ptr<Buffer> gate_, up_;
};

// x += the weighted sum of the feed-forwards of the experts that a row is routed to. A router
// scores all experts; the n_experts_used with the highest scores run, the lower number first where
// scores are equal.
struct ExpertWeights {
    std::unique_ptr<Buffer> norm;            // [hidden]
    std::unique_ptr<Matrix> router;          // [n_experts, hidden]
    std::unique_ptr<Matrix> gate, up, down;  // one for each expert, as FeedForwardWeights

    static std::vector<std::string> tensors();
    static base::Result<ExpertWeights> load(WeightLoader& loader, const model::ModelConfig& config,
                                            std::int32_t layer);
};

class ExpertRunner {
  public:
    base::Status run(Device& device, const model::ModelConfig& config, const ExpertWeights& weights,
                     const LayerRows& rows, NormedRows& normed);

  private:
    std::unique_ptr<Routing> routing_;
    std::unique_ptr<Buffer> scores_;                        // [rows, n_experts]
    std::unique_ptr<Buffer> inputs_, gate_, up_, outputs_;  // a row for each visit
};

}  // namespace helix::engine
