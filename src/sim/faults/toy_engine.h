#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "core/protocol/batch_plan.h"
#include "sim/cluster/compute.h"
#include "spec/cost_model.h"

namespace helix::sim {

// A worker's engine in virtual time: runs the toy model over real page ids, and says how long a
// machine with that cost model would have taken.
class ToyEngine {
  public:
    explicit ToyEngine(std::int32_t block_size, std::int32_t vocab,
                       spec::AttentionWindow window = {})
        : block_size_(block_size), vocab_(vocab), window_(std::move(window)) {}

    void load(spec::LayerRange layers, std::int64_t total_pages, std::int64_t swap_pages = 0);
    // tokens: as core::BatchFinished wants them. output: plan.output_rows rows.
    struct Outcome {
        std::vector<core::ProducedToken> tokens;
        Rows output;
        std::vector<core::ProducedToken> scored;
        std::vector<core::PooledRows> pooled;
    };
    Outcome run(const core::BatchPlan& plan, const std::map<std::uint64_t, Rows>& buffers);

    // What is in the pages: of each all its positions.
    Rows read_pages(std::span<const core::PageId> pages) const;
    void write_pages(std::span<const core::PageId> pages, std::span<const std::uint64_t> content);

  private:
    void move_pages(const core::BatchPlan& plan);
    // Adds the tokens that follow this row; false when it was followed by a wrong drafted token.
    bool draw(const core::BatchChunk& chunk, std::size_t index, std::uint64_t row,
              std::vector<core::ProducedToken>& tokens) const;
    // Pools the chunk's rows, which are past all layers.
    static core::PooledRows pool(const core::BatchChunk& chunk, const Rows& rows);
    std::uint64_t run_row(const core::BatchChunk& chunk, std::size_t index, std::uint64_t row);

    std::int32_t block_size_;
    std::int32_t vocab_;
    spec::AttentionWindow window_;
    spec::LayerRange layers_;
    // What a position left in a page, which says its token and all that came before it: a page that
    // was copied, shared, swapped or kept wrongly gives other tokens.
    std::vector<std::uint64_t> keys_;     // [page][slot]
    std::vector<std::uint64_t> swapped_;  // [page in host memory][slot]
};

double batch_seconds(const core::BatchPlan& plan, const spec::NodeSpec& node,
                     const spec::CostModel& cost);

}  // namespace helix::sim
