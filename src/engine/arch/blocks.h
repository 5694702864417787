#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/arch/architecture.h"
#include "engine/cpu/attention_cpu.h"
#include "engine/cpu/matmul_cpu.h"
#include "engine/device/weight_loader.h"
#include "engine/kernels/packed_matrix.h"
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
// Grows a work buffer, never shrinks it.
void make_room(std::vector<float>& buffer, std::int64_t size);

// The rows' residuals after an RMS norm, ready for matrices.
class NormedRows {
  public:
    void run(const Device& device, const LayerRows& rows, const std::vector<float>& weight,
             float epsilon);
    ops::MatmulRows& rows() { return matmul_rows_; }
    const float* data() const { return values_.data(); }

  private:
    std::vector<float> values_;
    ops::MatmulRows matmul_rows_;
};

// x += W_o attention(norm(x)), over paged keys and values.
struct AttentionWeights {
    std::vector<float> norm;                    // [hidden]
    ops::PackedMatrix q, k, v;                  // [heads * head_dim, hidden]
    std::vector<float> q_bias, k_bias, v_bias;  // [heads * head_dim] or empty
    std::vector<float> q_norm, k_norm;          // [head_dim] or empty
    ops::PackedMatrix output;                   // [hidden, n_heads * head_dim]

    static std::vector<std::string> tensors(const model::ModelConfig& config);
    static base::Result<AttentionWeights> load(WeightLoader& loader,
                                               const model::ModelConfig& config,
                                               std::int32_t layer);
};

class AttentionRunner {
  public:
    void run(const Device& device, const model::ModelConfig& config,
             const AttentionWeights& weights, std::int32_t layer, const LayerRows& rows,
             NormedRows& normed);

  private:
    void prepare_and_store(const Device& device, const model::ModelConfig& config,
                           const AttentionWeights& weights, const LayerRows& rows);

    std::vector<float> q_, k_, v_, attended_;
    ops::MatmulRows matmul_rows_;
    ops::Attention attention_;
    std::vector<ops::AttentionRows> sequences_;
    std::vector<const LayerSequence*> row_sequence_;
};

// x += W_down (silu(W_gate n) * W_up n), n = norm(x).
struct FeedForwardWeights {
    std::vector<float> norm;     // [hidden]
    ops::PackedMatrix gate, up;  // [ffn, hidden]
    ops::PackedMatrix down;      // [hidden, ffn]

    static std::vector<std::string> tensors();
    static base::Result<FeedForwardWeights> load(WeightLoader& loader,
                                                 const model::ModelConfig& config,
                                                 std::int32_t layer);
};

class FeedForwardRunner {
  public:
    void run(const Device& device, const model::ModelConfig& config,
             const FeedForwardWeights& weights, const LayerRows& rows, NormedRows& normed);

  private:
    std::vector<float> gate_, up_;
    ops::MatmulRows matmul_rows_;
};

// x += the weighted sum of the feed-forwards of the experts that a row is routed to. A router
// scores all experts; the n_experts_used with the highest scores run, the lower number first where
// scores are equal.
struct ExpertWeights {
    std::vector<float> norm;                        // [hidden]
    ops::PackedMatrix router;                       // [n_experts, hidden]
    std::vector<ops::PackedMatrix> gate, up, down;  // of each expert, as FeedForwardWeights

    static std::vector<std::string> tensors();
    static base::Result<ExpertWeights> load(WeightLoader& loader, const model::ModelConfig& config,
                                            std::int32_t layer);
};

class ExpertRunner {
  public:
    void run(const Device& device, const model::ModelConfig& config, const ExpertWeights& weights,
             const LayerRows& rows, NormedRows& normed);

  private:
    // A row's visit to one of its experts. Visits to the same expert lie together.
    struct Visit {
        std::int64_t row = 0;
        float weight = 0;
    };

    void route(const Device& device, const model::ModelConfig& config, std::int64_t rows);
    void collect_visits(const model::ModelConfig& config, std::int64_t rows);
    void compute(const Device& device, const model::ModelConfig& config,
                 const ExpertWeights& weights);

    std::vector<float> scores_;          // [rows, n_experts]
    std::vector<std::int32_t> chosen_;   // [rows, n_experts_used], ascending
    std::vector<float> chosen_weights_;  // [rows, n_experts_used]
    std::vector<Visit> visits_;
    std::vector<std::int64_t> first_visit_;            // [n_experts + 1]
    std::vector<std::int64_t> visit_of_;               // [rows, n_experts_used], index of visits_
    std::vector<float> inputs_, gate_, up_, outputs_;  // a row each visit
    ops::MatmulRows matmul_rows_;
    std::vector<ops::MatmulJob> jobs_;
};

}  // namespace helix::engine
