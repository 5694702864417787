#include "sim/faults/toy_engine.h"

#include <algorithm>

#include "base/check.h"
#include "sim/faults/toy_model.h"

namespace helix::sim {

void ToyEngine::load(spec::LayerRange layers, std::int64_t total_pages, std::int64_t swap_pages) {
    layers_ = layers;
    keys_.assign(static_cast<std::size_t>(total_pages * block_size_), 0);
    swapped_.assign(static_cast<std::size_t>(swap_pages * block_size_), 0);
}

void ToyEngine::move_pages(const core::BatchPlan& plan) {
    CHECK(plan.swap_out.empty() || plan.swap_in.empty());
    const auto size = static_cast<std::size_t>(block_size_);
    const auto page = [&](std::vector<std::uint64_t>& memory, std::size_t which) {
        CHECK((which + 1) * size <= memory.size());
        return memory.begin() + static_cast<std::ptrdiff_t>(which * size);
    };
    for (const core::PageSwap& swap : plan.swap_out)
        std::copy_n(page(keys_, swap.page), size, page(swapped_, swap.slot));
    for (const core::PageSwap& swap : plan.swap_in)
        std::copy_n(page(swapped_, swap.slot), size, page(keys_, swap.page));
    for (const core::PageCopy& copy : plan.copies)
        std::copy_n(page(keys_, copy.from), size, page(keys_, copy.to));
}

Rows ToyEngine::read_pages(std::span<const core::PageId> pages) const {
    const auto size = static_cast<std::size_t>(block_size_);
    Rows content;
    for (const core::PageId page : pages) {
        CHECK((page + 1) * size <= keys_.size());
        const auto first = keys_.begin() + static_cast<std::ptrdiff_t>(page * size);
        content.insert(content.end(), first, first + block_size_);
    }
    return content;
}

void ToyEngine::write_pages(std::span<const core::PageId> pages,
                            std::span<const std::uint64_t> content) {
    const auto size = static_cast<std::size_t>(block_size_);
    CHECK(content.size() == pages.size() * size);
    for (std::size_t i = 0; i < pages.size(); ++i) {
        CHECK((pages[i] + 1) * size <= keys_.size());
        std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(i * size), size,
                    keys_.begin() + static_cast<std::ptrdiff_t>(pages[i] * size));
    }
}

bool ToyEngine::draw(const core::BatchChunk& chunk, std::size_t index, std::uint64_t row,
                     std::vector<core::ProducedToken>& tokens) const {
    const auto position = chunk.first_position + static_cast<std::int32_t>(index) + 1;
    core::SequenceKey key = chunk.key;
    for (std::int32_t i = 0; i < chunk.draws; ++i) {
        if (chunk.draws > 1) key.member = static_cast<std::uint32_t>(i);
        const std::uint64_t seed = spec::member_seed(chunk.sampling.seed, key.member);
        tokens.push_back({key, position, toy_sample(row, seed, position, vocab_), 0, {}});
        if (chunk.sampling.n_logprobs > 0) {
            tokens.back().top = toy_top(row, chunk.sampling.n_logprobs, vocab_);
        }
    }
    return index + 1 < chunk.tokens.size() && tokens.back().token == chunk.tokens[index + 1];
}

core::PooledRows ToyEngine::pool(const core::BatchChunk& chunk, const Rows& rows) {
    // A hash between two chunks is two doubles, which hold its halves as they are.
    std::uint64_t pooled = 0;
    for (const double half : chunk.pooled)
        pooled = pooled << 32U | static_cast<std::uint64_t>(half);
    std::int32_t position = chunk.first_position;
    for (const std::uint64_t row : rows) pooled = toy_pool(pooled, row, position++, chunk.pooling);
    if (chunk.sample) return {{}, toy_embedding(pooled, chunk.pooling)};
    return {{static_cast<double>(pooled >> 32U), static_cast<double>(pooled & 0xffffffffU)}, {}};
}

std::uint64_t ToyEngine::run_row(const core::BatchChunk& chunk, std::size_t index,
                                 std::uint64_t row) {
    const auto block_size = static_cast<std::size_t>(block_size_);
    const std::size_t n_blocks = chunk.pages.size() / static_cast<std::size_t>(chunk.layers.size());
    const std::size_t position = static_cast<std::size_t>(chunk.first_position) + index;
    CHECK(position / block_size < n_blocks);
    for (std::int32_t layer = chunk.layers.begin; layer < chunk.layers.end; ++layer) {
        const std::size_t base = static_cast<std::size_t>(layer - chunk.layers.begin) * n_blocks;
        const auto slot = [&](std::size_t p) -> std::uint64_t& {
            const core::PageId page = chunk.pages[base + p / block_size];
            CHECK(page != core::kNoPage);
            return keys_.at(page * block_size + p % block_size);
        };
        slot(position) = toy_key(row, layer);
        std::uint64_t digest = 0;
        const auto at = static_cast<std::int64_t>(position);
        const std::int64_t begin = window_.has(layer) ? window_.first_position(at) : 0;
        for (auto p = static_cast<std::size_t>(begin); p <= position; ++p) digest += slot(p);
        row = toy_layer(row, layer, digest);
    }
    return row;
}

ToyEngine::Outcome ToyEngine::run(const core::BatchPlan& plan,
                                  const std::map<std::uint64_t, Rows>& buffers) {
    Outcome outcome;
    outcome.output.resize(static_cast<std::size_t>(plan.output_rows));
    move_pages(plan);
    for (const core::BatchChunk& chunk : plan.chunks) {
        CHECK(layers_.contains(chunk.layers));
        const bool pools = chunk.pooling != spec::Pooling::none;
        bool drawing = chunk.sample && !pools;
        Rows pooled;
        for (std::size_t i = 0; i < chunk.tokens.size(); ++i) {
            const auto position = chunk.first_position + static_cast<std::int32_t>(i);
            std::uint64_t row = chunk.layers.begin == 0
                                    ? toy_embed(chunk.tokens[i], position)
                                    : buffers.at(chunk.input.buffer).at(chunk.input.first_row + i);
            row = run_row(chunk, i, row);
            if (chunk.output_row >= 0) {
                outcome.output.at(static_cast<std::size_t>(chunk.output_row) + i) = row;
            }
            if (pools) pooled.push_back(row);
            if (i < chunk.scored.size()) {
                outcome.scored.push_back({chunk.key, position + 1, chunk.scored[i], 0, {}});
                outcome.scored.back().top = toy_top(row, chunk.sampling.n_logprobs, vocab_);
            }
            if (drawing && i + 1 + static_cast<std::size_t>(chunk.drafts) >= chunk.tokens.size()) {
                drawing = draw(chunk, i, row, outcome.tokens);
            }
        }
        if (pools) outcome.pooled.push_back(pool(chunk, pooled));
    }
    return outcome;
}

double batch_seconds(const core::BatchPlan& plan, const spec::NodeSpec& node,
                     const spec::CostModel& cost) {
    std::map<std::int32_t, std::pair<std::int32_t, std::int32_t>>
        per_layer;  // decodes, prefill rows
    for (const core::BatchChunk& chunk : plan.chunks) {
        const auto rows = static_cast<std::int32_t>(chunk.tokens.size());
        const bool decode = rows == 1 + chunk.drafts && chunk.first_position > 0;
        for (std::int32_t layer = chunk.layers.begin; layer < chunk.layers.end; ++layer) {
            auto& [decodes, prefills] = per_layer[layer];
            (decode ? decodes : prefills) += rows;
        }
    }
    double seconds = 0;
    for (const auto& [layer, load] : per_layer) {
        seconds += cost.layer_s(node, load.first, load.second);
    }
    return seconds;
}

}  // namespace helix::sim
