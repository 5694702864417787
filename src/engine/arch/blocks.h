#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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

// y = norm(x) of rows of the weight's size, by the model's kind of norm. y may be x.
void norm_rows(Device& device, const model::ModelConfig& config, const Buffer& x,
               const Buffer& weight, Buffer& y, std::int64_t rows);

// gate = activation(gate) * up, by the model's activation; or gelu(gate) alone where it has that.
void gate_rows(Device& device, const model::ModelConfig& config, Buffer& gate, const Buffer& up,
               std::int64_t rows, std::int64_t width);

// The norm of a sum of residuals and what a block has added, which takes its place.
struct SumNorm {
    std::unique_ptr<Buffer> weight, bias;  // [hidden] or null

    // The tensors of its name in a layer; no tensors where the model has no such norms.
    static std::vector<std::string> tensors(const model::ModelConfig& config, const char* name);
    static base::Result<SumNorm> load(WeightLoader& loader, const model::ModelConfig& config,
                                      std::int32_t layer, const char* name);
    // x: [rows, hidden].
    void run(Device& device, const model::ModelConfig& config, Buffer& x, std::int64_t rows) const;
};

// What a block reads: the rows' residuals, normed where the model norms them.
class NormedRows {
  public:
    // weight: [hidden], null: the residuals as they are. bias: [hidden] or null.
    base::Status run(Device& device, const model::ModelConfig& config, const LayerRows& rows,
                     const Buffer* weight, const Buffer* bias = nullptr);
    // [rows, hidden]; until the residuals change, where they are not normed.
    const Buffer& values() const { return *current_; }

  private:
    std::unique_ptr<Buffer> values_;
    const Buffer* current_ = nullptr;
};

// What a block adds to the residuals: the product of its last matrix, with a bias, normed and
// scaled where the model does so; or the normed sum of that and the residuals.
class AddedRows {
  public:
    // x: [rows, width of the matrix]; norm and bias, which comes first: [hidden] or null. of_sum:
    // null, or the norm of that sum, if it has weights.
    base::Status run(Device& device, const model::ModelConfig& config, const Matrix& matrix,
                     const Buffer& x, const Buffer* norm, const LayerRows& rows,
                     const Buffer* bias = nullptr, const SumNorm* of_sum = nullptr);

  private:
    std::unique_ptr<Buffer> values_;  // [rows, hidden]
};

// The work space that the blocks of a layer share.
struct BlockRows {
    NormedRows normed;
    AddedRows added;
};

// x += W_o attention(norm(x)), over paged keys and values; or x = norm(x + W_o attention(x)).
struct AttentionWeights {
    std::unique_ptr<Buffer> norm, norm_bias;           // [hidden] or null
    std::unique_ptr<Matrix> q, k, v;                   // [heads * head_dim, hidden]
    std::unique_ptr<Buffer> q_bias, k_bias, v_bias;    // [heads * head_dim] or null
    std::unique_ptr<Buffer> q_norm, k_norm;            // as model::QkNorm says, or null
    std::unique_ptr<Buffer> q_norm_bias, k_norm_bias;  // [heads * head_dim] or null
    std::unique_ptr<Buffer> sinks;                     // [n_heads] or null
    std::unique_ptr<Matrix> output;                    // [hidden, n_heads * head_dim]
    std::unique_ptr<Buffer> output_bias;               // [hidden] or null
    std::unique_ptr<Buffer> output_norm;               // [hidden] or null
    // Of the sum that ends the block, and of the one before where the model norms twice.
    SumNorm sum_norm, former_norm;

    static base::Result<std::int64_t> bytes(const WeightLoader& loader,
                                            const model::ModelConfig& config, std::int32_t layer);
    static base::Result<AttentionWeights> load(WeightLoader& loader,
                                               const model::ModelConfig& config,
                                               std::int32_t layer);
};

class AttentionRunner {
  public:
    base::Status run(Device& device, const model::ModelConfig& config,
                     const AttentionWeights& weights, std::int32_t layer, const LayerRows& rows,
                     BlockRows& shared);

  private:
    // Biases, norms and rope of the rows' queries, keys and values.
    void prepare_heads(Device& device, const model::ModelConfig& config,
                       const AttentionWeights& weights, std::int32_t layer, const LayerRows& rows);

    // ones_ and slopes_, which are the same for all layers, where the model needs them.
    base::Status make_constants(Device& device, const model::ModelConfig& config);

    std::unique_ptr<Buffer> q_, attended_;
    std::unique_ptr<Buffer> k_, v_;   // of layers that have keys and values of their own
    std::unique_ptr<Buffer> ones_;    // [the largest head]: weights of a norm that has none
    std::unique_ptr<Buffer> slopes_;  // [n_heads], where scores fall with distance
};

// x += norm(W_projection (gelu(W_gate x) * what the layer has of the row's token)).
struct LayerInputWeights {
    std::unique_ptr<Matrix> gate;        // [layer_input, hidden]
    std::unique_ptr<Matrix> projection;  // [hidden, layer_input]
    std::unique_ptr<Buffer> norm;        // [hidden]

    // The model must have such inputs.
    static base::Result<std::int64_t> bytes(const WeightLoader& loader, std::int32_t layer);
    static base::Result<LayerInputWeights> load(WeightLoader& loader,
                                                const model::ModelConfig& config,
                                                std::int32_t layer);
};

class LayerInputRunner {
  public:
    // rows.layer_input must be set.
    base::Status run(Device& device, const model::ModelConfig& config,
                     const LayerInputWeights& weights, const LayerRows& rows, BlockRows& shared);

  private:
    std::unique_ptr<Buffer> gate_;  // [rows, layer_input]
};

// x += W_down (silu(W_gate n) * W_up n), n = norm(x), or what attention has read; or with GELU, or
// x += W_down relu(W_up n)^2; or of an encoder, with biases, x = norm(x + W_down gelu(W_up x)).
struct FeedForwardWeights {
    std::unique_ptr<Buffer> norm, norm_bias;  // [hidden] or null
    std::unique_ptr<Matrix> gate, up;         // [ffn, hidden]; gate may be null
    std::unique_ptr<Matrix> down;             // [hidden, ffn]
    std::unique_ptr<Buffer> output_norm;      // [hidden] or null
    std::unique_ptr<Buffer> up_bias;          // [ffn] or null
    std::unique_ptr<Buffer> down_bias;        // [hidden] or null
    SumNorm sum_norm;

    static base::Result<std::int64_t> bytes(const WeightLoader& loader,
                                            const model::ModelConfig& config, std::int32_t layer);
    static base::Result<FeedForwardWeights> load(WeightLoader& loader,
                                                 const model::ModelConfig& config,
                                                 std::int32_t layer);
    // Those of the expert that every row visits: matrices alone.
    static base::Result<FeedForwardWeights> load_shared(WeightLoader& loader,
                                                        const model::ModelConfig& config,
                                                        std::int32_t layer);
};

class FeedForwardRunner {
  public:
    base::Status run(Device& device, const model::ModelConfig& config,
                     const FeedForwardWeights& weights, const LayerRows& rows, BlockRows& shared);
    // y = W_down (...) of rows as they are.
    base::Status multiply(Device& device, const model::ModelConfig& config,
                          const FeedForwardWeights& weights, const Buffer& normed,
                          std::int64_t rows, Buffer& y);
    // The same as run() of rows that shared.normed has already.
    base::Status run_normed(Device& device, const model::ModelConfig& config,
                            const FeedForwardWeights& weights, const LayerRows& rows,
                            BlockRows& shared);

  private:
    // gate_, which the last matrix gets.
    base::Status make_gate(Device& device, const model::ModelConfig& config,
                           const FeedForwardWeights& weights, const Buffer& normed,
                           std::int64_t rows);

    std::unique_ptr<Buffer> gate_, up_;
};

// x += the weighted sum of the feed-forwards of the experts that a row is routed to. A router
// scores all experts; the n_experts_used with the highest scores run, the lower number first where
// scores are equal. Then comes what an expert adds that every row visits, where there is one; it
// may be weighted with the sigmoid of a score of its own.
struct ExpertWeights {
    std::unique_ptr<Buffer> norm;            // [hidden] or null
    std::unique_ptr<Matrix> router;          // [n_experts, hidden]
    std::unique_ptr<Buffer> selection_bias;  // [n_experts] or null
    // One for each expert, as FeedForwardWeights; gate may be null.
    std::unique_ptr<Matrix> gate, up, down;
    std::unique_ptr<Buffer> router_bias;  // [n_experts] or null, added to the scores
    // [n_experts, outputs], or null
    std::unique_ptr<Buffer> gate_bias, up_bias, down_bias;
    std::optional<FeedForwardWeights> shared;
    std::unique_ptr<Matrix> shared_gate;  // [1, hidden] or null: the score of the shared expert
    std::unique_ptr<Buffer> factors;      // [n_experts], of their weights, or null
    SumNorm sum_norm;                     // not with an expert that every row visits

    static base::Result<std::int64_t> bytes(const WeightLoader& loader,
                                            const model::ModelConfig& config, std::int32_t layer);
    static base::Result<ExpertWeights> load(WeightLoader& loader, const model::ModelConfig& config,
                                            std::int32_t layer);
};

class ExpertRunner {
  public:
    base::Status run(Device& device, const model::ModelConfig& config, const ExpertWeights& weights,
                     const LayerRows& rows, BlockRows& shared);
    // What the experts make of the rows normed, by what the router makes of the rows routed: added
    // to y, or in the place of what was there. Without the expert that every row visits.
    base::Status visit_rows(Device& device, const model::ModelConfig& config,
                            const ExpertWeights& weights, const Buffer& routed,
                            const Buffer& normed, std::int64_t rows, Buffer& y, bool replace);

  private:
    base::Status route(Device& device, const model::ModelConfig& config,
                       const ExpertWeights& weights, const Buffer& normed, std::int64_t rows);
    void make_gates(Device& device, const model::ModelConfig& config, const ExpertWeights& weights,
                    std::int64_t visits);
    void visit(Device& device, const model::ModelConfig& config, const ExpertWeights& weights,
               std::int64_t visits);
    // x += what the expert makes of shared.normed that every row visits, weighted where it has a
    // gate: by a routing to an only expert.
    base::Status visit_shared(Device& device, const model::ModelConfig& config,
                              const ExpertWeights& weights, const LayerRows& rows,
                              BlockRows& shared);

    std::unique_ptr<Routing> routing_;
    std::unique_ptr<Buffer> scores_;                        // [rows, n_experts]
    std::unique_ptr<Buffer> inputs_, gate_, up_, outputs_;  // a row for each visit
    FeedForwardRunner of_all_;                              // the expert that every row visits
    std::unique_ptr<Routing> of_all_routing_;
    std::unique_ptr<Buffer> of_all_scores_;   // [rows]
    std::unique_ptr<Buffer> of_all_outputs_;  // [rows, hidden]
};

// A feed-forward and experts side by side: x += norm(norm(feed-forward(norm(x))) +
// norm(experts(norm(x)))), each norm with weights of its own, and the router reads one more.
struct MixedWeights {
    FeedForwardWeights dense;
    ExpertWeights experts;
    std::unique_ptr<Buffer> dense_norm, experts_norm;  // [hidden], of what each makes
    std::unique_ptr<Buffer> router_norm;               // [hidden]

    static base::Result<std::int64_t> bytes(const WeightLoader& loader,
                                            const model::ModelConfig& config, std::int32_t layer);
    static base::Result<MixedWeights> load(WeightLoader& loader, const model::ModelConfig& config,
                                           std::int32_t layer);
};

class MixedRunner {
  public:
    base::Status run(Device& device, const model::ModelConfig& config, const MixedWeights& weights,
                     const LayerRows& rows);

  private:
    FeedForwardRunner dense_;
    ExpertRunner experts_;
    std::unique_ptr<Buffer> normed_, routed_;  // [rows, hidden]
    std::unique_ptr<Buffer> of_dense_, of_experts_;
};

}  // namespace helix::engine
