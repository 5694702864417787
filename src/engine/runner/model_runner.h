#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/arch/architecture.h"
#include "engine/backend/backend.h"
#include "engine/backend/token_filter.h"
#include "engine/device/device.h"
#include "engine/ops/kv_layout.h"
#include "engine/runner/dense_layers.h"
#include "engine/runner/draw_tokens.h"
#include "engine/runner/encoder_input.h"
#include "engine/runner/layer_inputs.h"
#include "engine/runner/pair_head.h"
#include "engine/runner/reduced_logits.h"
#include "engine/runner/sampler.h"
#include "model/model_config.h"
#include "model/weight_source.h"

namespace helix::engine {

struct RunnerOptions {
    // For weights and KV pages; work space (some MB) comes on top. 0 = what the device has free
    // when the layers are loaded.
    std::int64_t memory_bytes = 0;
    std::int64_t swap_bytes = 0;   // of host memory besides, for KV pages that are swapped out
    std::int32_t block_size = 16;  // tokens of a page
    ops::KvType kv_type = ops::KvType::f16;
    std::shared_ptr<TokenFilter> filter;  // null = requests with a grammar are an error
};

// Runs a model's layers on a device: what is the same for all devices. Checks batches, divides the
// memory, brings rows in, has them enter and leave at their layers, and draws tokens.
class ModelRunner final : public Backend {
  public:
    // invalid: an architecture, shape or option that cannot be run.
    static base::Result<std::unique_ptr<Backend>> create(
        std::shared_ptr<model::WeightSource> weights, model::ModelConfig config,
        std::unique_ptr<Device> device, RunnerOptions options);
    ~ModelRunner() override;

    base::Result<std::int64_t> load(spec::LayerRange layers) override;
    void drop_kv() override;
    base::Result<BatchResult> run(const core::BatchPlan& plan, const PayloadRows& payload) override;
    std::int32_t compute_threads() const override { return device_->compute_threads(); }
    bool lost() const override { return device_->lost(); }
    std::int32_t hidden_size() const override { return config_.hidden; }
    std::int64_t swap_pages() const override { return kv_ == nullptr ? 0 : kv_->swap_pages(); }
    std::string kv_format() const override;
    std::int64_t kv_page_bytes() const override { return kv_page_.page_bytes(); }
    base::Status read_pages(std::span<const core::PageId> pages,
                            std::span<std::byte> bytes) const override;
    base::Status write_pages(std::span<const core::PageId> pages,
                             std::span<const std::byte> bytes) override;
    // Null while no layers are loaded.
    const KvArena* kv() const { return kv_.get(); }

  private:
    struct ActiveChunk {
        const core::BatchChunk* chunk;
        std::int64_t first_row;
    };

    ModelRunner(std::shared_ptr<model::WeightSource> weights, model::ModelConfig config,
                std::unique_ptr<Device> device, RunnerOptions options,
                std::unique_ptr<Architecture> architecture);

    std::int64_t pages() const { return kv_ == nullptr ? 0 : kv_->pages(); }
    base::Result<std::int64_t> weight_bytes(const WeightLoader& loader,
                                            spec::LayerRange layers) const;
    base::Status load_weights(WeightLoader& loader, spec::LayerRange layers);
    // The norm behind the last layer, and a decoder's head.
    base::Status load_output(WeightLoader& loader);
    base::Status load_head(WeightLoader& loader);
    void drop_head();
    // Whether a cross-encoder's head is theirs.
    bool ranks_pairs(spec::LayerRange layers) const;
    // Whether the dense layers behind the pooling are.
    bool has_dense_layers(spec::LayerRange layers) const;
    base::Status load_embedding();
    void drop_embedding();
    base::Status check_chunk(const core::BatchChunk& chunk, const core::BatchPlan& plan) const;
    // The same of what is an encoder's alone; empty: it can be run.
    std::string problem_of_encoder(const core::BatchChunk& chunk) const;
    bool is_pooled_so_far(const core::BatchChunk& chunk) const;
    base::Status activate(const core::BatchPlan& plan, std::int32_t layer,
                          const PayloadRows& payload);
    // Calls make(row) for rows [0, rows), on the host's threads where they are many.
    template <typename Make>
    void make_rows(std::int64_t rows, const Make& make);
    // Reads the table of embeddings: rows that enter the first layer, [tokens, hidden].
    void embed(const core::BatchChunk& chunk, std::span<float> rows);
    bool needs_embedding(spec::LayerRange layers) const {
        return !layers.empty() && (layers.begin == 0 || config_.layer_input > 0);
    }
    // What is wrong with running these layers and no others; "": nothing.
    std::string problem_of_layers(spec::LayerRange layers) const;
    // The inputs of layers, up to the chunks' last, of the next active rows, which embedded_ has.
    base::Status set_layer_inputs(std::int32_t layer);
    // The rows that the chunk enters its first layer with. embedded: its tokens', where that is the
    // model's first.
    base::Result<std::span<const float>> input_rows(const core::BatchChunk& chunk,
                                                    std::span<const float> embedded,
                                                    const PayloadRows& payload) const;
    // The layer's, of positions_.
    const Buffer& angles_of(std::int32_t layer) const;
    // The angles of positions_ by this table, to the device.
    base::Status write_angles(const ops::RopeTable& table, std::unique_ptr<Buffer>& to);
    base::Status run_layer(std::int32_t layer);
    base::Status finish_chunks(std::int32_t layer, BatchResult& result);
    // first_row: the chunk's in hidden_, after the last layer.
    base::Status score(const core::BatchChunk& chunk, std::int64_t first_row, BatchResult& result);
    // As score(), of a chunk with pooling.
    base::Status pool(const core::BatchChunk& chunk, std::int64_t first_row, BatchResult& result);
    // The score by the state that the model ranks by, for want of an embedding.
    base::Result<std::vector<float>> score_alone(std::span<const double> state) const;
    // Rows of hidden_ to the head's rows, normed where the model norms them once more.
    base::Status norm_for_head(std::span<const ops::RowRange> ranges, std::unique_ptr<Buffer>& to,
                               std::int64_t rows);
    // logits_ after normed rows.
    base::Status apply_head(const Buffer& rows, std::int64_t n);
    // [count, vocab]; until the device's next call.
    base::Result<std::span<const float>> read_logits(std::int64_t first_row, std::int64_t count);
    // Rows of hidden_ that the head gets, those first that have to be read whole.
    void place_head_rows();
    base::Status sample(BatchResult& result);
    // Rows of logits_ from first_row on, for which reduced_ says what is named, to reduced_.
    base::Status reduce(std::int64_t first_row, int n_top, bool sum);
    base::Status score_rows(const core::BatchChunk& chunk, std::int64_t first,
                            std::span<core::ProducedToken> scored, base::Status& status);

    std::shared_ptr<model::WeightSource> weights_;
    model::ModelConfig config_;
    RunnerOptions options_;
    std::unique_ptr<Device> device_;  // before everything that it makes
    std::unique_ptr<Architecture> architecture_;
    ops::KvLayout kv_page_;  // as pages travel

    spec::LayerRange layers_;  // loaded
    ops::RopeTable rope_table_;
    std::optional<ops::RopeTable> windowed_rope_table_, temperature_table_;
    std::span<const std::byte> embedding_;
    model::TensorType embedding_type_ = model::TensorType::f32;
    LayerInputs layer_inputs_;  // loaded with the embedding, where the model has such
    std::optional<EncoderInput> encoder_input_;  // with the embedding, where the model norms it
    std::unique_ptr<Buffer> output_norm_, output_norm_bias_;
    std::unique_ptr<Matrix> head_;
    std::vector<float> rank_rows_;             // [rows of the rank head, hidden]; empty = none
    std::optional<PairHead> pair_head_;        // a cross-encoder's, with its last layer
    std::optional<DenseLayers> dense_layers_;  // likewise, where the model has such
    std::unique_ptr<KvArena> kv_;

    // Of the batch that runs, and kept as work space. Rows of the active chunks are compact, in
    // plan order.
    std::vector<ActiveChunk> active_, next_active_;
    std::unique_ptr<Buffer> hidden_, next_hidden_;  // [rows, hidden]
    std::unique_ptr<Buffer> angles_;                // [rows, rope_dim]
    std::unique_ptr<Buffer> windowed_angles_;       // likewise, of layers with a base of their own
    std::unique_ptr<Buffer> temperatures_;          // [rows, head_dim], of layers with one
    std::vector<std::int32_t> positions_;           // of the active rows
    std::vector<float> host_angles_;                // on their way to the device
    std::vector<float> embedded_;                   // likewise: the next active rows' tokens
    std::vector<spec::Token> row_tokens_;           // of the active rows, for inputs of layers
    std::vector<ops::RowRange> ranges_;
    std::vector<ops::SequenceRows> sequences_;
    struct SampledRows {
        std::int64_t first_row = 0;           // in hidden_
        std::optional<ReductionNeeds> needs;  // nothing: they are read whole
    };
    std::vector<ChunkLogits> to_sample_;
    std::vector<SampledRows> sampled_rows_;  // of these
    std::int64_t n_head_rows_ = 0;
    std::int64_t n_whole_rows_ = 0;  // of these, the first
    ReducedLogits reduced_;
    std::unique_ptr<Buffer> last_rows_;    // [n_head_rows, hidden], normed: what the head gets
    std::unique_ptr<Buffer> scored_rows_;  // likewise
    std::unique_ptr<Buffer> logits_;
    std::unique_ptr<Buffer> reduction_;
    std::vector<Sampler> samplers_;  // one for each of the host's threads
};

}  // namespace helix::engine
