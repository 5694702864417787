#include "engine/modelled/modelled_backend.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include <fmt/format.h>

#include "base/random.h"
#include "engine/backend/page_moves.h"

namespace helix::engine {
namespace {

using base::Errc;
using base::Error;
using base::Ok;
using base::Result;
using base::Status;

// A row between stages: [magic, next layer, position, token, hash in four 16-bit pieces, 0...].
constexpr float kMagic = 20813.0F;

void write_row(std::span<float> row, std::int32_t next_layer, std::int32_t position,
               spec::Token token, std::uint64_t hash) {
    std::fill(row.begin(), row.end(), 0.0F);
    row[0] = kMagic;
    row[1] = static_cast<float>(next_layer);
    row[2] = static_cast<float>(position);
    row[3] = static_cast<float>(token);
    for (std::size_t i = 0; i < 4; ++i) {
        row[4 + i] = static_cast<float>((hash >> (16 * i)) & 0xffffU);
    }
}

std::uint64_t read_hash(std::span<const float> row) {
    std::uint64_t hash = 0;
    for (std::size_t i = 0; i < 4; ++i) {
        hash |= static_cast<std::uint64_t>(row[4 + i]) << (16 * i);
    }
    return hash;
}

bool is_row_of(std::span<const float> row, std::int32_t layer, std::int32_t position,
               spec::Token token) {
    if (row[0] != kMagic || row[1] != static_cast<float>(layer) ||
        row[2] != static_cast<float>(position) || row[3] != static_cast<float>(token)) {
        return false;
    }
    return std::all_of(row.begin() + 4, row.begin() + 8, [](float piece) {
        return piece >= 0 && piece <= 65535.0F && piece == std::floor(piece);
    });
}

// One "layer": what position p leaves in the page depends on what p - 1 left there and on the row;
// the row that goes on depends on both.
std::uint32_t page_mark(std::uint32_t before, std::uint64_t row_hash) {
    return static_cast<std::uint32_t>(base::hash_pair(row_hash, before)) | 1U;  // 0 = never written
}

std::uint64_t embed(spec::Token token, std::int32_t position) {
    return base::hash_pair(static_cast<std::uint64_t>(token), static_cast<std::uint64_t>(position));
}

spec::Token to_token(std::uint64_t hash, std::int32_t vocab_size,
                     const spec::SamplingParams& sampling, std::uint32_t member) {
    const std::uint64_t seed =
        sampling.temperature > 0 ? spec::member_seed(sampling.seed, member) : 0;
    return static_cast<spec::Token>(base::hash_pair(hash, seed) %
                                    static_cast<std::uint64_t>(vocab_size));
}

}  // namespace

void ModelledBackend::FreeDeleter::operator()(std::uint32_t* memory) const {
    std::free(memory);
}

Result<std::unique_ptr<ModelledBackend>> ModelledBackend::create(ModelledOptions options) {
    if (options.cost == nullptr) return base::invalid("the modelled backend needs a cost model");
    if (options.hidden_size < kModelledRowFloats) {
        return base::invalid(
            fmt::format("hidden size {} of the modelled backend: at least {} is needed",
                        options.hidden_size, kModelledRowFloats));
    }
    if (!(options.time_scale >= 0)) {
        return base::invalid(
            fmt::format("time scale {} of the modelled backend", options.time_scale));
    }
    const auto& model = options.model;
    if (options.vocab_size < 1 || options.block_size < 1 || model.n_layers < 1 ||
        model.kv_bytes_per_token_layer < 1) {
        return base::invalid(
            fmt::format("modelled backend: vocabulary {}, block size {}, layers {} and KV bytes {} "
                        "must be positive",
                        options.vocab_size, options.block_size, model.n_layers,
                        model.kv_bytes_per_token_layer));
    }
    return std::unique_ptr<ModelledBackend>(new ModelledBackend(std::move(options)));
}

std::string ModelledBackend::kv_format() const {
    return fmt::format("modelled {}", options_.block_size);
}

double ModelledBackend::kv_travel_bytes() const {
    return options_.time_scale * static_cast<double>(options_.model.kv_bytes_per_token_layer) *
           options_.block_size;
}

Status ModelledBackend::read_pages(std::span<const core::PageId> pages,
                                   std::span<std::byte> bytes) const {
    TRY_VOID(check_pages(pages, total_pages_, bytes.size()));
    const auto slots = static_cast<std::size_t>(options_.block_size);
    for (std::size_t i = 0; i < pages.size(); ++i) {
        std::memcpy(bytes.data() + i * slots * sizeof(std::uint32_t),
                    pages_.get() + pages[i] * slots, slots * sizeof(std::uint32_t));
    }
    return Ok{};
}

Status ModelledBackend::write_pages(std::span<const core::PageId> pages,
                                    std::span<const std::byte> bytes) {
    TRY_VOID(check_pages(pages, total_pages_, bytes.size()));
    const auto slots = static_cast<std::size_t>(options_.block_size);
    for (std::size_t i = 0; i < pages.size(); ++i) {
        std::memcpy(pages_.get() + pages[i] * slots,
                    bytes.data() + i * slots * sizeof(std::uint32_t),
                    slots * sizeof(std::uint32_t));
    }
    return Ok{};
}

void ModelledBackend::drop_kv() {
    layers_ = {};
    pages_.reset();
    swapped_.reset();
    total_pages_ = swap_pages_ = 0;
}

Result<std::int64_t> ModelledBackend::load(spec::LayerRange layers) {
    const spec::ModelSpec& model = options_.model;
    drop_kv();
    if (layers.empty()) return std::int64_t{0};
    if (layers.begin < 0 || layers.end > model.n_layers) {
        return base::invalid(fmt::format("layers [{}, {}) of a model with {}", layers.begin,
                                         layers.end, model.n_layers));
    }
    const std::int64_t weights = spec::stored_bytes(model, layers);
    const std::int64_t page_bytes = model.kv_bytes_per_token_layer * options_.block_size;
    const std::int64_t needed = weights + page_bytes * spec::kv_layers(model, layers).size();
    if (options_.memory_bytes < needed) {
        return Error{Errc::unavailable,
                     fmt::format("layers [{}, {}) need {} bytes more memory", layers.begin,
                                 layers.end, needed - options_.memory_bytes)};
    }
    constexpr std::int64_t kMostPages = std::int64_t{1} << 30;
    total_pages_ = std::min((options_.memory_bytes - weights) / page_bytes, kMostPages);
    swap_pages_ = std::min(options_.swap_bytes / page_bytes, kMostPages);
    const auto memory_for = [&](std::int64_t pages) {
        const auto slots =
            static_cast<std::size_t>(pages) * static_cast<std::size_t>(options_.block_size);
        return static_cast<std::uint32_t*>(std::calloc(slots + 1, sizeof(std::uint32_t)));
    };
    pages_.reset(memory_for(total_pages_));
    swapped_.reset(memory_for(swap_pages_));
    if (pages_ == nullptr || swapped_ == nullptr)
        return Error{Errc::unavailable, "no address space for the modelled KV pages"};
    layers_ = layers;
    return total_pages_;
}

double ModelledBackend::plan_seconds(const core::BatchPlan& plan) const {
    double seconds = 0;
    for (std::int32_t layer = layers_.begin; layer < layers_.end; ++layer) {
        std::int32_t decodes = 0;
        std::int32_t prefill = 0;
        for (const core::BatchChunk& chunk : plan.chunks) {
            if (!chunk.layers.contains(layer)) continue;
            const auto rows = static_cast<std::int32_t>(chunk.tokens.size());
            (rows == 1 + chunk.drafts ? decodes : prefill) += rows;
        }
        seconds += options_.cost->layer_s(options_.node, decodes, prefill);
    }
    return seconds;
}

Result<BatchResult> ModelledBackend::run(const core::BatchPlan& plan, const PayloadRows& payload) {
    const auto start = std::chrono::steady_clock::now();
    TRY_VOID(move_pages(plan));
    BatchResult result;
    result.output.resize(static_cast<std::size_t>(plan.output_rows) *
                         static_cast<std::size_t>(options_.hidden_size));
    for (const core::BatchChunk& chunk : plan.chunks) {
        if (chunk.layers.empty() || !layers_.contains(chunk.layers)) {
            return base::invalid(fmt::format("chunk of layers [{}, {}) on a worker with [{}, {})",
                                             chunk.layers.begin, chunk.layers.end, layers_.begin,
                                             layers_.end));
        }
        std::span<const float> rows;
        if (chunk.layers.begin > 0) rows = payload(chunk.input);
        TRY_VOID(run_chunk(chunk, rows, result));
    }
    std::this_thread::sleep_until(
        start + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                    std::chrono::duration<double>(plan_seconds(plan) * options_.time_scale)));
    return result;
}

Status ModelledBackend::run_chunk(const core::BatchChunk& chunk, std::span<const float> rows,
                                  BatchResult& result) {
    const auto hidden = static_cast<std::size_t>(options_.hidden_size);
    if (chunk.layers.begin > 0 && rows.size() != chunk.tokens.size() * hidden) {
        return base::invalid(fmt::format("{} floats of activations for {} tokens of {}",
                                         rows.size(), chunk.tokens.size(), hidden));
    }
    const bool pools = chunk.pooling != spec::Pooling::none;
    if ((chunk.sample || pools || !chunk.scored.empty()) &&
        chunk.layers.end != options_.model.n_layers) {
        return base::invalid(fmt::format("asked for a token after layer {} of {}", chunk.layers.end,
                                         options_.model.n_layers));
    }
    bool drawing = chunk.sample && !pools;
    std::uint64_t last = 0;
    for (std::size_t row = 0; row < chunk.tokens.size(); ++row) {
        std::span<const float> in;
        if (chunk.layers.begin > 0) in = rows.subspan(row * hidden, hidden);
        TRY(const std::uint64_t hash, run_row(chunk, row, in));
        last = hash;
        if (row < chunk.scored.size()) score_after(chunk, row, hash, result);
        if (drawing && row + 1 + static_cast<std::size_t>(chunk.drafts) >= chunk.tokens.size()) {
            drawing = draw_after(chunk, row, hash, result);
        }
        if (chunk.output_row >= 0) {
            const std::size_t at = (static_cast<std::size_t>(chunk.output_row) + row) * hidden;
            CHECK(at + hidden <= result.output.size());
            write_row(std::span(result.output).subspan(at, hidden), chunk.layers.end,
                      chunk.first_position + static_cast<std::int32_t>(row), chunk.tokens[row],
                      hash);
        }
    }
    if (pools) result.pooled.push_back(pool(chunk, last));
    return Ok{};
}

// Made up, too: one value of an embedding is 1, and the last row, whose hash all rows before it
// have a part in, says which. Of that hash a score is made.
core::PooledRows ModelledBackend::pool(const core::BatchChunk& chunk, std::uint64_t hash) const {
    core::PooledRows pooled;
    if (!chunk.sample) return pooled;
    if (chunk.pooling == spec::Pooling::rank) {
        pooled.embedding = {static_cast<float>(hash >> 40U) / 16777216.0F};
        return pooled;
    }
    pooled.embedding.resize(static_cast<std::size_t>(options_.hidden_size));
    pooled.embedding[hash % pooled.embedding.size()] = 1;
    return pooled;
}

// Made up, like the tokens.
void ModelledBackend::score_after(const core::BatchChunk& chunk, std::size_t row,
                                  std::uint64_t hash, BatchResult& result) const {
    core::ProducedToken scored = draw(chunk, row, chunk.key.member, hash);
    scored.token = chunk.scored[row];
    const auto token = static_cast<std::uint64_t>(scored.token);
    scored.logprob = -static_cast<float>(base::hash_pair(hash, token) % 1024) / 64.0F;
    result.scored.push_back(std::move(scored));
}

bool ModelledBackend::draw_after(const core::BatchChunk& chunk, std::size_t row, std::uint64_t hash,
                                 BatchResult& result) const {
    if (chunk.sampling.grammar.present()) {
        result.failed.push_back(
            {chunk.key, "a modelled worker's made-up tokens cannot follow a grammar"});
    }
    for (std::int32_t i = 0; i < chunk.draws; ++i) {
        const std::uint32_t member =
            chunk.draws > 1 ? static_cast<std::uint32_t>(i) : chunk.key.member;
        result.tokens.push_back(draw(chunk, row, member, hash));
    }
    const bool last = row + 1 == chunk.tokens.size() || chunk.sampling.grammar.present();
    return !last && result.tokens.back().token == chunk.tokens[row + 1];
}

Status ModelledBackend::move_pages(const core::BatchPlan& plan) {
    TRY_VOID(check_moves(plan, total_pages_, swap_pages_));
    const auto size = static_cast<std::size_t>(options_.block_size);
    for (const core::PageSwap& swap : plan.swap_out)
        std::copy_n(&pages_[swap.page * size], size, &swapped_[swap.slot * size]);
    for (const core::PageSwap& swap : plan.swap_in)
        std::copy_n(&swapped_[swap.slot * size], size, &pages_[swap.page * size]);
    for (const core::PageCopy& copy : plan.copies)
        std::copy_n(&pages_[copy.from * size], size, &pages_[copy.to * size]);
    return Ok{};
}

Result<std::uint64_t> ModelledBackend::run_row(const core::BatchChunk& chunk, std::size_t row,
                                               std::span<const float> in) {
    const std::int32_t position = chunk.first_position + static_cast<std::int32_t>(row);
    const spec::Token token = chunk.tokens[row];
    std::uint64_t hash = embed(token, position);
    if (!in.empty()) {
        if (!is_row_of(in, chunk.layers.begin, position, token)) {
            return base::invalid(fmt::format(
                "row of request {} holds layer {} position {} token {}, expected layer {} position "
                "{} token {}",
                chunk.key.request.value, in[1], in[2], in[3], chunk.layers.begin, position, token));
        }
        hash = read_hash(in);
    }
    const auto n_blocks = chunk.pages.size() / static_cast<std::size_t>(chunk.layers.size());
    const auto block_size = static_cast<std::size_t>(options_.block_size);
    const spec::LayerRange own = spec::kv_layers(options_.model, chunk.layers);
    for (std::int32_t layer = own.begin; layer < own.end; ++layer) {
        const std::size_t base = static_cast<std::size_t>(layer - chunk.layers.begin) * n_blocks;
        const auto slot = [&](std::int32_t at) -> std::uint32_t* {
            const std::size_t block = static_cast<std::size_t>(at) / block_size;
            if (block >= n_blocks || chunk.pages[base + block] >= total_pages_) return nullptr;
            return &pages_[chunk.pages[base + block] * block_size +
                           static_cast<std::size_t>(at) % block_size];
        };
        std::uint32_t* here = slot(position);
        const spec::AttentionWindow& window = options_.model.window;
        const std::int64_t first = window.has(layer) ? window.first_position(position) : 0;
        const std::uint32_t* before = position > first ? slot(position - 1) : nullptr;
        if (here == nullptr || (position > first && (before == nullptr || *before == 0))) {
            return base::invalid(fmt::format("request {}: no KV page for position {} of layer {}",
                                             chunk.key.request.value, position, layer));
        }
        *here = page_mark(before == nullptr ? 0 : *before, hash);
        hash = base::hash_pair(hash, *here);
    }
    return hash;
}

core::ProducedToken ModelledBackend::draw(const core::BatchChunk& chunk, std::size_t row,
                                          std::uint32_t member, std::uint64_t hash) const {
    core::ProducedToken produced;
    produced.key = chunk.key;
    produced.key.member = member;
    produced.position = chunk.first_position + static_cast<std::int32_t>(row) + 1;
    produced.token = to_token(hash, options_.vocab_size, chunk.sampling, member);
    for (std::int32_t i = 0; i < chunk.sampling.n_logprobs; ++i) {
        produced.top.push_back(
            {(produced.token + i) % options_.vocab_size, -static_cast<float>(i)});
    }
    return produced;
}

spec::Token modelled_next_token(std::span<const spec::Token> tokens, std::int32_t n_layers,
                                std::int32_t vocab_size, const spec::SamplingParams& sampling) {
    std::vector<std::uint32_t> marks(static_cast<std::size_t>(n_layers), 0);
    std::uint64_t hash = 0;
    for (std::size_t position = 0; position < tokens.size(); ++position) {
        hash = embed(tokens[position], static_cast<std::int32_t>(position));
        for (std::uint32_t& mark : marks) {
            mark = page_mark(mark, hash);
            hash = base::hash_pair(hash, mark);
        }
    }
    return to_token(hash, vocab_size, sampling, 0);
}

}  // namespace helix::engine
