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
#include "engine/cpu/kv_memory.h"
#include "engine/cpu/matmul_cpu.h"
#include "engine/host/thread_pool.h"
#include "engine/kernels/kernels.h"
#include "engine/kernels/packed_matrix.h"
#include "engine/ops/kv_layout.h"
#include "engine/runner/draw_tokens.h"
#include "engine/runner/sampler.h"
#include "model/model_config.h"
#include "model/weight_source.h"

namespace helix::engine {

struct CpuOptions {
    int threads = 0;        // 0 = one for each core of the machine
    std::vector<int> cpus;  // cores to pin the threads to; empty = not pinned, see place_threads()
    // Tensor parallel ranks: groups of threads, each with its share of the heads and of every
    // matrix' outputs in memory of its own. Divides the key-value heads; at most one per thread.
    int ranks = 1;
    // For weights and KV pages; work space (some MB) comes on top. 0 = four fifths of what the
    // machine has free when the layers are loaded. Pages take physical memory only once they are
    // used.
    std::int64_t memory_bytes = 0;
    std::int64_t swap_bytes = 0;   // of memory besides, for KV pages that are swapped out
    std::int32_t block_size = 16;  // tokens of a page
    ops::KvType kv_type = ops::KvType::f16;
    std::optional<ops::Isa> isa;  // empty = the best of this machine; all give the same bits
    std::shared_ptr<TokenFilter> filter;  // null = requests with a grammar are an error
};

// invalid: so many ranks do not divide the model's key-value heads, or have no thread each.
base::Status check_ranks(int ranks, int threads, const model::ModelConfig& config);

// Runs a model's layers on the cores of this machine.
class CpuBackend final : public Backend {
  public:
    // invalid: an architecture, shape or option that cannot be run.
    static base::Result<std::unique_ptr<Backend>> create(
        std::shared_ptr<model::WeightSource> weights, model::ModelConfig config,
        CpuOptions options);
    ~CpuBackend() override;

    base::Result<std::int64_t> load(spec::LayerRange layers) override;
    void drop_kv() override;
    base::Result<BatchResult> run(const core::BatchPlan& plan, const PayloadRows& payload) override;
    std::int32_t compute_threads() const override { return options_.threads; }
    std::int32_t hidden_size() const override { return config_.hidden; }
    std::int64_t swap_pages() const override { return kv_.swap_pages(); }
    std::string kv_format() const override;
    std::int64_t kv_page_bytes() const override { return kv_layout_.page_bytes(); }
    base::Status read_pages(std::span<const core::PageId> pages,
                            std::span<std::byte> bytes) const override;
    base::Status write_pages(std::span<const core::PageId> pages,
                             std::span<const std::byte> bytes) override;
    // What a rank holds of a page.
    std::span<const std::byte> page_of_rank(core::PageId page, int rank) const {
        return kv_.page_of_rank(page, rank);
    }

  private:
    struct ActiveChunk {
        const core::BatchChunk* chunk;
        std::int64_t first_row;
    };

    CpuBackend(std::shared_ptr<model::WeightSource> weights, model::ModelConfig config,
               CpuOptions options, std::unique_ptr<Architecture> architecture);

    base::Result<std::int64_t> weight_bytes(const WeightLoader& loader,
                                            spec::LayerRange layers) const;
    base::Status load_weights(WeightLoader& loader, spec::LayerRange layers);
    void drop_head();
    base::Status load_embedding();
    void drop_embedding();
    base::Status check_chunk(const core::BatchChunk& chunk, const core::BatchPlan& plan) const;
    base::Status activate(const core::BatchPlan& plan, std::int32_t layer,
                          const PayloadRows& payload);
    base::Status copy_input(const core::BatchChunk& chunk, const PayloadRows& payload,
                            float* rows) const;
    void run_layer(std::int32_t layer);
    void finish_chunks(std::int32_t layer, BatchResult& result);
    // rows: the chunk's, after the last layer.
    void score(const core::BatchChunk& chunk, const float* rows, BatchResult& result);
    void apply_head(const float* rows, std::int64_t n);  // normed rows, to logits_
    void sample(BatchResult& result);

    std::shared_ptr<model::WeightSource> weights_;
    model::ModelConfig config_;
    CpuOptions options_;
    std::unique_ptr<Architecture> architecture_;
    const ops::Kernels& kernels_;
    ThreadPool pool_;
    ops::KvLayout kv_layout_;

    spec::LayerRange layers_;  // loaded
    std::span<const std::byte> embedding_;
    model::TensorType embedding_type_ = model::TensorType::f32;
    std::vector<float> output_norm_;
    ops::PackedMatrix head_;
    KvMemory kv_;

    // Of the batch that runs, and kept as work space. Rows of the active chunks are compact, in
    // plan order.
    std::vector<ActiveChunk> active_, next_active_;
    std::vector<float> hidden_, next_hidden_;  // [rows, hidden]
    std::vector<float> rope_;                  // [rows, rope_dim]
    std::vector<LayerSequence> sequences_;
    std::vector<std::byte*> pages_;
    std::vector<ChunkLogits> to_sample_;
    std::int64_t n_head_rows_ = 0;
    std::vector<float> last_rows_;    // [n_head_rows, hidden], normed: what the head gets
    std::vector<float> scored_rows_;  // likewise
    std::vector<float> logits_;
    ops::MatmulRows head_rows_;
    std::vector<Sampler> samplers_;  // one for each thread
};

}  // namespace helix::engine
