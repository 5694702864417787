#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "spec/cost_model.h"
#include "spec/model_spec.h"

namespace helix::engine {

struct ModelledOptions {
    spec::NodeSpec node;  // whose time it takes
    std::shared_ptr<const spec::CostModel> cost;
    spec::ModelSpec model;
    std::int32_t hidden_size = 8;  // floats per row that really travel; at least kModelledRowFloats
    std::int32_t vocab_size = 32000;
    std::int32_t block_size = 16;
    std::int64_t memory_bytes = 0;
    std::int64_t swap_bytes = 0;  // of host memory, for KV pages that are swapped out
    double time_scale = 1;        // 0.1 = ten times faster than the modelled machine
};

constexpr std::int32_t kModelledRowFloats = 8;

// A machine that computes nothing but takes its time: real batches, real KV pages, real rows
// between stages, and tokens that depend on every token before and every layer, through the pages
// and rows, as a model's would. So the text is the same on every pipeline; a row that skipped a
// layer, a page of another sequence or a wrong position is an error or another text.
class ModelledBackend final : public Backend {
  public:
    // Invalid options are an error that names the option.
    static base::Result<std::unique_ptr<ModelledBackend>> create(ModelledOptions options);

    base::Result<std::int64_t> load(spec::LayerRange layers) override;
    void drop_kv() override;
    base::Result<BatchResult> run(const core::BatchPlan& plan, const PayloadRows& payload) override;
    std::int32_t hidden_size() const override { return options_.hidden_size; }
    std::int64_t swap_pages() const override { return swap_pages_; }

    // A page travels as its marks; it takes the time of a page of the modelled machine.
    std::string kv_format() const override;
    std::int64_t kv_page_bytes() const override {
        return options_.block_size * std::int64_t{sizeof(std::uint32_t)};
    }
    double kv_travel_bytes() const override;
    base::Status read_pages(std::span<const core::PageId> pages,
                            std::span<std::byte> bytes) const override;
    base::Status write_pages(std::span<const core::PageId> pages,
                             std::span<const std::byte> bytes) override;

    // Seconds the modelled machine takes for the plan, time scale not applied.
    double plan_seconds(const core::BatchPlan& plan) const;

  private:
    struct FreeDeleter {
        void operator()(std::uint32_t* memory) const;
    };

    explicit ModelledBackend(ModelledOptions options) : options_(std::move(options)) {}
    base::Status run_chunk(const core::BatchChunk& chunk, std::span<const float> rows,
                           BatchResult& result);
    base::Result<std::uint64_t> run_row(const core::BatchChunk& chunk, std::size_t row,
                                        std::span<const float> in);
    core::PooledRows pool(const core::BatchChunk& chunk, std::uint64_t hash) const;
    void score_after(const core::BatchChunk& chunk, std::size_t row, std::uint64_t hash,
                     BatchResult& result) const;
    core::ProducedToken draw(const core::BatchChunk& chunk, std::size_t row, std::uint32_t member,
                             std::uint64_t hash) const;
    // Adds the tokens that follow this row; false when it was followed by a wrong drafted token.
    bool draw_after(const core::BatchChunk& chunk, std::size_t row, std::uint64_t hash,
                    BatchResult& result) const;
    base::Status move_pages(const core::BatchPlan& plan);

    ModelledOptions options_;
    spec::LayerRange layers_;
    std::int64_t total_pages_ = 0;
    std::int64_t swap_pages_ = 0;
    // [total_pages, block_size]: what a position left in a layer, as 32 bits; untouched parts of it
    // take no memory.
    std::unique_ptr<std::uint32_t[], FreeDeleter> pages_;
    std::unique_ptr<std::uint32_t[], FreeDeleter> swapped_;  // [swap_pages, block_size]
};

// The token that follows these tokens, whatever the pipeline: what a run of the backend must give.
spec::Token modelled_next_token(std::span<const spec::Token> tokens, std::int32_t n_layers,
                                std::int32_t vocab_size, const spec::SamplingParams& sampling);

}  // namespace helix::engine
