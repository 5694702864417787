#include "engine/runner/model_runner.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/index.h"
#include "engine/arch/blocks.h"
#include "engine/backend/page_moves.h"
#include "engine/kernels/kernels.h"
#include "engine/ops/kv_type.h"
#include "engine/ops/rope.h"
#include "engine/runner/pool_rows.h"
#include "engine/runner/rank_rows.h"

namespace helix::engine {
namespace {

constexpr const char* kEmbedding = "token_embd.weight";
constexpr const char* kOutputNorm = "output_norm.weight";
constexpr const char* kOutputNormBias = "output_norm.bias";
constexpr const char* kHead = "output.weight";
// That are normed at once, and that the head gets at once: their logits stay small.
constexpr std::int64_t kScoredRows = 64;
// That one of the host's threads makes at once: fewer take it less than waking another.
constexpr std::int64_t kMadeRows = 16;

using base::size_of;

base::Status check_config(const model::ModelConfig& c) {
    if (c.n_layers <= 0 || c.hidden <= 0 || c.n_heads <= 0 || c.n_kv_heads <= 0 ||
        c.head_dim <= 0 || c.ffn <= 0 || c.vocab <= 0) {
        return base::invalid("the model has a dimension that is not positive");
    }
    if (c.n_heads % c.n_kv_heads != 0) {
        return base::invalid(
            fmt::format("{} query heads cannot share {} key-value heads", c.n_heads, c.n_kv_heads));
    }
    if (c.rope_dim < 0 || c.rope_dim % 2 != 0 || c.rope_dim > c.head_dim) {
        return base::invalid(
            fmt::format("rope dimension {} does not fit heads of {}", c.rope_dim, c.head_dim));
    }
    if (!c.rope_factors.empty() && std::ssize(c.rope_factors) != c.rope_dim / 2) {
        return base::invalid(fmt::format("{} rope factors found, {} expected",
                                         c.rope_factors.size(), c.rope_dim / 2));
    }
    return base::Ok{};
}

}  // namespace

base::Result<std::unique_ptr<Backend>> ModelRunner::create(
    std::shared_ptr<model::WeightSource> weights, model::ModelConfig config,
    std::unique_ptr<Device> device, RunnerOptions options) {
    CHECK(weights != nullptr && device != nullptr);
    TRY_VOID(check_config(config));
    if (options.block_size < 1)
        return base::invalid(fmt::format("block size {}: at least 1", options.block_size));
    if (options.memory_bytes < 0 || options.swap_bytes < 0)
        return base::invalid("the memory budget is negative");
    TRY(auto architecture, make_architecture(config));
    return std::unique_ptr<Backend>(new ModelRunner(std::move(weights), std::move(config),
                                                    std::move(device), std::move(options),
                                                    std::move(architecture)));
}

ModelRunner::ModelRunner(std::shared_ptr<model::WeightSource> weights, model::ModelConfig config,
                         std::unique_ptr<Device> device, RunnerOptions options,
                         std::unique_ptr<Architecture> architecture)
    : weights_(std::move(weights)),
      config_(std::move(config)),
      options_(std::move(options)),
      device_(std::move(device)),
      architecture_(std::move(architecture)),
      kv_page_(ops::kv_page_of(config_, options_.kv_type, options_.block_size)),
      rope_table_(config_),
      samplers_(size_of(device_->host_threads().size()), Sampler(ops::kernels(ops::best_isa()))) {
    using Layers = ops::RopeTable::Layers;
    if (config_.windowed_rope_base > 0) windowed_rope_table_.emplace(config_, Layers::windowed);
    if (config_.temperature_length > 0) temperature_table_.emplace(config_, Layers::temperature);
}

ModelRunner::~ModelRunner() {
    drop_embedding();
}

// ---- pages that move
// ------------------------------------------------------------------------------

std::string ModelRunner::kv_format() const {
    return fmt::format("{} {}x{}x{}", ops::to_string(kv_page_.type), kv_page_.block_size,
                       kv_page_.n_kv_heads, kv_page_.head_dim);
}

base::Status ModelRunner::read_pages(std::span<const core::PageId> pages,
                                     std::span<std::byte> bytes) const {
    TRY_VOID(check_pages(pages, this->pages(), bytes.size()));
    for (std::size_t i = 0; i < pages.size(); ++i) {
        TRY_VOID(kv_->read(pages[i], bytes.data() + i * size_of(kv_page_bytes())));
    }
    return base::Ok{};
}

base::Status ModelRunner::write_pages(std::span<const core::PageId> pages,
                                      std::span<const std::byte> bytes) {
    TRY_VOID(check_pages(pages, this->pages(), bytes.size()));
    for (std::size_t i = 0; i < pages.size(); ++i) {
        TRY_VOID(kv_->write(pages[i], bytes.data() + i * size_of(kv_page_bytes())));
    }
    return base::Ok{};
}

// ---- loading
// --------------------------------------------------------------------------------------

base::Result<std::int64_t> ModelRunner::weight_bytes(const WeightLoader& loader,
                                                     spec::LayerRange layers) const {
    std::int64_t sum = 0;
    for (std::int32_t l = layers.begin; l < layers.end; ++l) {
        TRY(const std::int64_t bytes, architecture_->layer_bytes(loader, l));
        sum += bytes;
    }
    if (needs_embedding(layers)) {
        TRY(const std::int64_t bytes, loader.bytes(kEmbedding));
        sum += bytes + (config_.embedding_norm ? EncoderInput::bytes(config_) : 0);
    }
    if (config_.layer_input > 0) {
        TRY(const std::int64_t bytes, LayerInputs::bytes(loader, config_));
        sum += bytes;
    }
    const bool ends = layers.end == config_.n_layers;
    if (ends && !config_.encoder) {
        TRY(const std::int64_t head, loader.bytes(config_.tied_embeddings ? kEmbedding : kHead));
        sum += head;
    }
    if (ends && config_.has_output_norm()) {
        TRY(const std::int64_t norm, loader.bytes(kOutputNorm));
        sum += norm;
        if (config_.norm_bias) sum += loader.vector_bytes(config_.hidden);
    }
    if (ranks_pairs(layers)) sum += PairHead::bytes(config_.hidden);
    if (has_dense_layers(layers)) sum += DenseLayers::bytes(config_);
    return sum;
}

base::Status ModelRunner::load_weights(WeightLoader& loader, spec::LayerRange layers) {
    for (std::int32_t l = 0; l < config_.n_layers; ++l) {
        if (!layers.contains(l)) architecture_->drop_layer(l);
    }
    if (!needs_embedding(layers)) drop_embedding();
    const bool needs_output = layers.end == config_.n_layers && config_.has_output_norm();
    if (!needs_output) drop_head();
    if (!ranks_pairs(layers)) pair_head_.reset();
    if (!has_dense_layers(layers)) dense_layers_.reset();
    // In this order: what is large is unpacked beside little else, and a tied head is packed while
    // the embedding is in use, so that a source that makes or fetches it does so once.
    if (needs_embedding(layers) && embedding_.empty()) TRY_VOID(load_embedding());
    if (config_.layer_input > 0 && !layer_inputs_.loaded())
        TRY_VOID(layer_inputs_.load(*weights_, loader, config_));
    if (needs_output && output_norm_ == nullptr) TRY_VOID(load_output(loader));
    if (ranks_pairs(layers) && !pair_head_) {
        TRY(pair_head_, PairHead::load(*weights_, config_.hidden));
    }
    if (has_dense_layers(layers) && !dense_layers_) {
        TRY(dense_layers_, DenseLayers::load(*weights_, config_));
    }
    for (std::int32_t l = layers.begin; l < layers.end; ++l) {
        if (!architecture_->has_layer(l)) TRY_VOID(architecture_->load_layer(loader, l));
    }
    return base::Ok{};
}

base::Status ModelRunner::load_output(WeightLoader& loader) {
    if (!config_.encoder) TRY_VOID(load_head(loader));
    if (config_.norm_bias) {
        TRY(output_norm_bias_, loader.vector(kOutputNormBias, config_.hidden));
    }
    TRY(output_norm_, loader.vector(kOutputNorm, config_.hidden));
    return base::Ok{};
}

base::Status ModelRunner::load_head(WeightLoader& loader) {
    const model::RankHead& rank = config_.rank_head;
    if (rank.present()) {
        TRY(rank_rows_, load_rank_rows(*weights_, rank, config_.hidden));
    }
    auto head =
        loader.matrix(config_.tied_embeddings ? kEmbedding : kHead, config_.vocab, config_.hidden);
    // Not before, since the rows are most often those of the same tensor.
    if (rank.present()) weights_->release(rank.tensor);
    TRY(head_, std::move(head));
    return base::Ok{};
}

void ModelRunner::drop_head() {
    head_ = nullptr;
    output_norm_ = nullptr;
    output_norm_bias_ = nullptr;
    rank_rows_ = {};
}

bool ModelRunner::ranks_pairs(spec::LayerRange layers) const {
    return config_.rank_head.of_pairs && layers.end == config_.n_layers;
}

bool ModelRunner::has_dense_layers(spec::LayerRange layers) const {
    return config_.dense_inner > 0 && layers.end == config_.n_layers;
}

base::Status ModelRunner::load_embedding() {
    const model::TensorInfo* info = weights_->file().find_tensor(kEmbedding);
    CHECK(info != nullptr);
    if (info->row_length() != config_.hidden || info->rows() != config_.vocab) {
        return base::invalid(fmt::format("tensor {}: shape {} x {} expected, {} x {} found",
                                         kEmbedding, config_.vocab, config_.hidden, info->rows(),
                                         info->row_length()));
    }
    if (config_.embedding_norm) {
        TRY(encoder_input_, EncoderInput::load(*weights_, config_));
    }
    TRY(embedding_, weights_->tensor(kEmbedding));
    CHECK(embedding_.size() == info->bytes);
    embedding_type_ = info->type;
    return base::Ok{};
}

void ModelRunner::drop_embedding() {
    if (!embedding_.empty()) weights_->release(kEmbedding);
    embedding_ = {};
    encoder_input_.reset();
    layer_inputs_.drop(*weights_);
}

void ModelRunner::drop_kv() {
    layers_ = {};
    kv_ = nullptr;
}

base::Result<std::int64_t> ModelRunner::load(spec::LayerRange layers) {
    drop_kv();
    WeightLoader loader(*weights_, *device_);
    if (layers.empty()) {
        for (std::int32_t l = 0; l < config_.n_layers; ++l) architecture_->drop_layer(l);
        drop_head();
        pair_head_.reset();
        dense_layers_.reset();
        drop_embedding();
        return std::int64_t{0};
    }
    if (layers.begin < 0 || layers.end > config_.n_layers) {
        return base::invalid(fmt::format("layers [{}, {}) of a model with {}", layers.begin,
                                         layers.end, config_.n_layers));
    }
    if (const std::string problem = problem_of_layers(layers); !problem.empty())
        return base::invalid(problem);
    TRY(const std::int64_t weights, weight_bytes(loader, layers));
    const std::int64_t budget =
        options_.memory_bytes > 0 ? options_.memory_bytes : device_->memory_bytes();
    const std::int64_t page = kv_page_.page_bytes();
    const std::int64_t least_kv = config_.kv_layers(layers).size() * page;
    const std::int64_t least = weights + least_kv;
    if (least > budget) {
        return base::Error{
            base::Errc::unavailable,
            fmt::format("layers [{}, {}) need {} bytes of weights and at least {} of KV pages; the "
                        "memory budget is {}: {} bytes are missing",
                        layers.begin, layers.end, weights, least_kv, budget, least - budget)};
    }
    device_->expect_matrices(weights);
    const base::Status loaded = load_weights(loader, layers);
    device_->expect_matrices(0);
    if (!loaded.ok()) return loaded.error();
    constexpr std::int64_t kMaxPages = 1LL << 31;
    const std::int64_t pages = std::min((budget - weights) / page, kMaxPages);
    const std::int64_t swap_pages = std::min(options_.swap_bytes / page, kMaxPages);
    TRY(kv_, device_->make_kv_arena(kv_page_, pages, swap_pages));
    layers_ = layers;
    return pages;
}

// ---- running
// --------------------------------------------------------------------------------------

base::Status ModelRunner::check_chunk(const core::BatchChunk& chunk,
                                      const core::BatchPlan& plan) const {
    const auto bad = [&](std::string what) {
        return base::invalid(
            fmt::format("request {} in batch {}: {}", chunk.key.request.value, plan.id, what));
    };
    if (chunk.layers.empty() || !layers_.contains(chunk.layers)) {
        return bad(fmt::format("layers [{}, {}) are not within [{}, {}), which are loaded",
                               chunk.layers.begin, chunk.layers.end, layers_.begin, layers_.end));
    }
    if (const std::string problem = problem_of_layers(chunk.layers); !problem.empty())
        return bad(problem);
    const std::int64_t rows = std::ssize(chunk.tokens);
    const std::int64_t blocks = std::ssize(chunk.pages) / chunk.layers.size();
    if (rows == 0 || chunk.first_position < 0) return bad("it has no rows or a negative position");
    if (std::ssize(chunk.pages) % chunk.layers.size() != 0 ||
        blocks * options_.block_size < chunk.first_position + rows) {
        return bad(fmt::format("{} pages for {} layers cannot hold {} positions",
                               chunk.pages.size(), chunk.layers.size(),
                               chunk.first_position + rows));
    }
    for (std::int64_t i = 0; i < std::ssize(chunk.pages); ++i) {
        const core::PageId page = chunk.pages[size_of(i)];
        if (page != core::kNoPage) {
            if (page >= pages()) return bad(fmt::format("page {} of {}", page, pages()));
            continue;
        }
        const auto layer = chunk.layers.begin + static_cast<std::int32_t>(i / blocks);
        if (config_.shares_kv(layer)) continue;  // it reads the pages of another
        const std::int32_t first = ops::first_attended(
            chunk.first_position, config_.window_of(layer), config_.chunked_attention);
        if (i % blocks >= first / options_.block_size) {
            return bad(fmt::format("no page for block {} of layer {}, which its rows attend to",
                                   i % blocks, layer));
        }
    }
    for (const std::span<const spec::Token> tokens :
         {std::span<const spec::Token>(chunk.tokens.begin(), chunk.tokens.end()),
          std::span<const spec::Token>(chunk.scored)}) {
        for (const spec::Token token : tokens) {
            if (token < 0 || token >= config_.vocab) {
                return bad(fmt::format("token {}; the vocabulary has {}", token, config_.vocab));
            }
        }
    }
    if (chunk.output_row >= 0 && chunk.output_row + rows > plan.output_rows)
        return bad("output rows out of range");
    const bool pools = chunk.pooling != spec::Pooling::none;
    if ((chunk.sample || pools || !chunk.scored.empty()) && chunk.layers.end != config_.n_layers) {
        return bad(fmt::format("cannot sample after layer {}", chunk.layers.end));
    }
    if (chunk.pooling == spec::Pooling::rank && rank_rows_.empty() && !pair_head_)
        return bad("the model has no head that ranks documents");
    if (pools && (chunk.draws != 1 || chunk.drafts != 0 || !is_pooled_so_far(chunk)))
        return bad("its rows cannot be pooled so");
    if (const std::string problem = problem_of_encoder(chunk); !problem.empty())
        return bad(problem);
    if (std::ssize(chunk.scored) > rows)
        return bad(fmt::format("{} tokens follow {} rows", chunk.scored.size(), rows));
    if (!chunk.scored.empty() && chunk.sampling.n_logprobs < 0)
        return bad("tokens are to be scored without log-probabilities");
    if (chunk.drafts < 0 || chunk.drafts >= rows || chunk.draws < 1 ||
        (chunk.drafts > 0 && chunk.draws > 1)) {
        return bad(
            fmt::format("{} drafts and {} draws on {} rows", chunk.drafts, chunk.draws, rows));
    }
    if (chunk.sample && chunk.sampling.needs_history() &&
        std::ssize(chunk.history) - chunk.drafts < chunk.prompt_tokens) {
        return bad(fmt::format("{} tokens of history with a prompt of {}",
                               std::ssize(chunk.history) - chunk.drafts, chunk.prompt_tokens));
    }
    return base::Ok{};
}

std::string ModelRunner::problem_of_layers(spec::LayerRange layers) const {
    if (config_.n_shared_kv_layers == 0) return "";
    for (std::int32_t layer = layers.begin; layer < layers.end; ++layer) {
        const std::int32_t source = config_.kv_layer(layer);
        if (layers.contains(source)) continue;
        return fmt::format("layers [{}, {}) without layer {}, whose keys and values layer {} reads",
                           layers.begin, layers.end, source, layer);
    }
    return "";
}

std::string ModelRunner::problem_of_encoder(const core::BatchChunk& chunk) const {
    if (!config_.encoder) return "";
    const bool pools = chunk.pooling != spec::Pooling::none;
    // Others have no result that anybody sees: what layers take is measured with pieces.
    if (pools && (chunk.first_position != 0 || !chunk.sample))
        return "an encoder's text is computed in one piece";
    const std::int64_t end = chunk.first_position + std::ssize(chunk.tokens);
    if (chunk.layers.begin == 0 && config_.n_positions > 0 && end > config_.n_positions) {
        return fmt::format("{} positions are needed, of which the model has {}", end,
                           config_.n_positions);
    }
    const bool draws = chunk.sample && !pools;
    return draws || !chunk.scored.empty() ? "an encoder draws and scores no tokens" : "";
}

// Says whether what was pooled before the chunk is what these rows go on from.
bool ModelRunner::is_pooled_so_far(const core::BatchChunk& chunk) const {
    const bool empty = chunk.first_position == 0 || spec::needs_last_alone(chunk.pooling);
    return std::ssize(chunk.pooled) == (empty ? 0 : config_.hidden);
}

template <typename Make>
void ModelRunner::make_rows(std::int64_t rows, const Make& make) {
    device_->host_threads().run_pieces(rows, kMadeRows, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) make(row);
    });
}

void ModelRunner::embed(const core::BatchChunk& chunk, std::span<float> rows) {
    const std::int64_t hidden = config_.hidden;
    const std::int64_t row_bytes = std::ssize(embedding_) / config_.vocab;
    const std::int64_t n = std::ssize(chunk.tokens);
    const std::int64_t first_kind =
        encoder_input_ ? encoder_input_->first_kind({chunk.tokens.begin(), chunk.tokens.end()}) : n;
    make_rows(n, [&](std::int64_t r) {
        const auto at = size_of(chunk.tokens[size_of(r)] * row_bytes);
        const auto row = rows.subspan(size_of(r * hidden), size_of(hidden));
        model::dequantize_row(embedding_type_, embedding_.subspan(at, size_of(row_bytes)),
                              row.data());
        if (encoder_input_) {
            const auto position = chunk.first_position + static_cast<std::int32_t>(r);
            return encoder_input_->finish(position, r >= first_kind, row);
        }
        if (config_.embedding_scale == 1.0F) return;
        for (float& x : row) x *= config_.embedding_scale;
    });
}

base::Result<std::span<const float>> ModelRunner::input_rows(const core::BatchChunk& chunk,
                                                             std::span<const float> embedded,
                                                             const PayloadRows& payload) const {
    if (chunk.layers.begin == 0) return embedded;
    const std::int64_t hidden = config_.hidden;
    const std::int64_t n = std::ssize(chunk.tokens);
    const std::span<const float> input = payload(chunk.input);
    if (std::ssize(input) != n * hidden) {
        return base::invalid(
            fmt::format("request {}: {} activations expected for {} rows, {} received",
                        chunk.key.request.value, n * hidden, n, input.size()));
    }
    return input;
}

// Makes the rows of exactly the chunks that run this layer active.
base::Status ModelRunner::activate(const core::BatchPlan& plan, std::int32_t layer,
                                   const PayloadRows& payload) {
    const bool same = std::none_of(
        plan.chunks.begin(), plan.chunks.end(), [layer](const core::BatchChunk& chunk) {
            return chunk.layers.begin == layer || chunk.layers.end == layer;
        });
    if (same) return base::Ok{};
    next_active_.clear();
    std::int64_t rows = 0;
    for (const core::BatchChunk& chunk : plan.chunks) {
        if (!chunk.layers.contains(layer)) continue;
        next_active_.push_back({&chunk, rows});
        rows += std::ssize(chunk.tokens);
    }
    const std::int64_t hidden = config_.hidden;
    TRY_VOID(make_room(*device_, next_hidden_, rows * hidden));
    positions_.clear();
    ranges_.clear();
    const bool embeds = layer == 0 || config_.layer_input > 0;
    embedded_.resize(embeds ? size_of(rows * hidden) : 0);
    for (const ActiveChunk& next : next_active_) {
        const core::BatchChunk& chunk = *next.chunk;
        std::span<float> embedded;
        if (embeds) {
            embedded = std::span(embedded_).subspan(size_of(next.first_row * hidden),
                                                    chunk.tokens.size() * size_of(hidden));
            embed(chunk, embedded);
        }
        if (chunk.layers.begin == layer) {
            TRY(const std::span<const float> input, input_rows(chunk, embedded, payload));
            TRY_VOID(device_->write(*next_hidden_, next.first_row * hidden, input));
        } else {
            const auto old =
                std::find_if(active_.begin(), active_.end(),
                             [&](const ActiveChunk& a) { return a.chunk == next.chunk; });
            ranges_.push_back({old->first_row, next.first_row, std::ssize(chunk.tokens)});
        }
        for (std::size_t r = 0; r < chunk.tokens.size(); ++r)
            positions_.push_back(chunk.first_position + static_cast<std::int32_t>(r));
    }
    if (!ranges_.empty()) device_->copy_rows({*hidden_, *next_hidden_, hidden, ranges_});
    TRY_VOID(write_angles(rope_table_, angles_));
    if (windowed_rope_table_) TRY_VOID(write_angles(*windowed_rope_table_, windowed_angles_));
    if (temperature_table_) TRY_VOID(write_angles(*temperature_table_, temperatures_));
    if (config_.layer_input > 0) TRY_VOID(set_layer_inputs(layer));
    std::swap(hidden_, next_hidden_);
    std::swap(active_, next_active_);
    return base::Ok{};
}

base::Status ModelRunner::set_layer_inputs(std::int32_t layer) {
    spec::LayerRange layers{layer, layer};
    row_tokens_.clear();
    for (const ActiveChunk& next : next_active_) {
        const core::BatchChunk& chunk = *next.chunk;
        layers.end = std::max(layers.end, chunk.layers.end);
        row_tokens_.insert(row_tokens_.end(), chunk.tokens.begin(), chunk.tokens.end());
    }
    return layer_inputs_.set_rows(*device_, row_tokens_, embedded_, layers);
}

base::Status ModelRunner::write_angles(const ops::RopeTable& table, std::unique_ptr<Buffer>& to) {
    const std::int64_t rows = std::ssize(positions_);
    const auto rope_dim = size_of(table.rope_dim());
    TRY_VOID(make_room(*device_, to, rows * table.rope_dim()));
    host_angles_.resize(size_of(rows) * rope_dim);
    make_rows(rows, [&](std::int64_t r) {
        table.fill(positions_[size_of(r)],
                   std::span(host_angles_).subspan(size_of(r) * rope_dim, rope_dim));
    });
    return device_->write(*to, 0, host_angles_);
}

const Buffer& ModelRunner::angles_of(std::int32_t layer) const {
    if (config_.has_temperature(layer)) return *temperatures_;
    return config_.has_windowed_rope(layer) ? *windowed_angles_ : *angles_;
}

base::Status ModelRunner::run_layer(std::int32_t layer) {
    sequences_.clear();
    const std::int32_t source = config_.kv_layer(layer);
    std::int64_t rows = 0;
    for (const ActiveChunk& active : active_) {
        const core::BatchChunk& chunk = *active.chunk;
        const std::size_t blocks = chunk.pages.size() / size_of(chunk.layers.size());
        const std::size_t first = size_of(source - chunk.layers.begin) * blocks;
        sequences_.push_back({active.first_row, std::ssize(chunk.tokens), chunk.first_position,
                              std::span(chunk.pages).subspan(first, blocks)});
        rows += std::ssize(chunk.tokens);
    }
    const Buffer* input = nullptr;
    if (config_.layer_input > 0) {
        TRY(input, layer_inputs_.make(*device_, layer));
    }
    return architecture_->run_layer(*device_, layer,
                                    {*hidden_, angles_of(layer), *kv_, sequences_, rows, input});
}

// Hands on the rows of the chunks whose last layer this was.
base::Status ModelRunner::finish_chunks(std::int32_t layer, BatchResult& result) {
    const std::int64_t hidden = config_.hidden;
    for (const ActiveChunk& active : active_) {
        const core::BatchChunk& chunk = *active.chunk;
        if (chunk.layers.end != layer + 1) continue;
        const std::int64_t n = std::ssize(chunk.tokens);
        if (chunk.output_row >= 0) {
            TRY(const std::span<const float> rows,
                device_->read(*hidden_, active.first_row * hidden, n * hidden));
            std::copy(rows.begin(), rows.end(), result.output.begin() + chunk.output_row * hidden);
        }
        if (!chunk.scored.empty()) TRY_VOID(score(chunk, active.first_row, result));
        const bool pools = chunk.pooling != spec::Pooling::none;
        if (pools) TRY_VOID(pool(chunk, active.first_row, result));
        if (chunk.sample && !pools) {
            to_sample_.push_back({&chunk, 0});
            sampled_rows_.push_back(
                {active.first_row + n - (chunk.drafts + 1), reduction_needs(chunk, config_.vocab)});
        }
    }
    // Only the model's last layer is followed by sampling: here are all the rows of the batch.
    if (to_sample_.empty()) return base::Ok{};
    place_head_rows();
    return norm_for_head(ranges_, last_rows_, n_head_rows_);
}

void ModelRunner::place_head_rows() {
    ranges_.clear();
    n_head_rows_ = 0;
    for (const bool whole : {true, false}) {
        for (std::size_t i = 0; i < to_sample_.size(); ++i) {
            if (sampled_rows_[i].needs.has_value() == whole) continue;
            const std::int64_t rows = to_sample_[i].chunk->drafts + 1;
            to_sample_[i].first_row = n_head_rows_;
            ranges_.push_back({sampled_rows_[i].first_row, n_head_rows_, rows});
            n_head_rows_ += rows;
        }
        if (whole) n_whole_rows_ = n_head_rows_;
    }
}

base::Status ModelRunner::norm_for_head(std::span<const ops::RowRange> ranges,
                                        std::unique_ptr<Buffer>& to, std::int64_t rows) {
    const std::int64_t hidden = config_.hidden;
    TRY_VOID(make_room(*device_, to, rows * hidden));
    device_->copy_rows({*hidden_, *to, hidden, ranges});
    if (!config_.has_output_norm()) return base::Ok{};  // the last layer's sums are normed
    norm_rows(*device_, config_, *to, *output_norm_, *to, rows);
    if (output_norm_bias_ != nullptr) device_->add_bias({*to, *output_norm_bias_, rows, hidden});
    return base::Ok{};
}

base::Status ModelRunner::score(const core::BatchChunk& chunk, std::int64_t first_row,
                                BatchResult& result) {
    const std::int64_t n = std::ssize(chunk.scored);
    const std::size_t first_scored = result.scored.size();
    result.scored.resize(first_scored + size_of(n));
    base::Status status = base::Ok{};
    for (std::int64_t first = 0; first < n; first += kScoredRows) {
        const std::int64_t count = std::min(kScoredRows, n - first);
        const ops::RowRange range[] = {{first_row + first, 0, count}};
        TRY_VOID(norm_for_head(range, scored_rows_, count));
        TRY_VOID(apply_head(*scored_rows_, count));
        const auto scored =
            std::span(result.scored).subspan(first_scored + size_of(first), size_of(count));
        TRY_VOID(score_rows(chunk, first, scored, status));
    }
    if (!status.ok()) result.failed.push_back({chunk.key, status.error().message});
    return base::Ok{};
}

// The chunk's tokens after its rows from `first` on, whose logits_ these are. status: the chunk's
// own; the first error stays.
base::Status ModelRunner::score_rows(const core::BatchChunk& chunk, std::int64_t first,
                                     std::span<core::ProducedToken> scored, base::Status& status) {
    if (const auto needs = scoring_needs(chunk, config_.vocab)) {
        reduced_.clear();
        const auto tokens = std::span(chunk.scored).subspan(size_of(first), scored.size());
        for (const spec::Token& token : tokens) reduced_.add_row({&token, 1});
        TRY_VOID(reduce(0, needs->n_top, needs->sum));
        if (score_tokens(chunk, first, reduced_, scored)) return base::Ok{};
    }
    TRY(const std::span<const float> logits, read_logits(0, std::ssize(scored)));
    const base::Status piece =
        score_tokens(device_->host_threads(), samplers_, chunk, first, logits, scored);
    if (status.ok()) status = piece;
    return base::Ok{};
}

base::Status ModelRunner::pool(const core::BatchChunk& chunk, std::int64_t first_row,
                               BatchResult& result) {
    const bool of_pair = chunk.pooling == spec::Pooling::rank && pair_head_.has_value();
    const ChunkRows rows = of_pair ? ChunkRows{0, 1} : rows_to_pool(chunk);
    core::PooledRows& pooled = result.pooled.emplace_back();
    pooled.so_far = chunk.pooled;
    if (rows.count > 0) pooled.so_far.resize(size_of(config_.hidden));
    for (std::int64_t done = 0; done < rows.count; done += kScoredRows) {
        const std::int64_t count = std::min(kScoredRows, rows.count - done);
        const ops::RowRange range[] = {{first_row + rows.first + done, 0, count}};
        TRY_VOID(norm_for_head(range, scored_rows_, count));
        TRY(const std::span<const float> states,
            device_->read(*scored_rows_, 0, count * config_.hidden));
        add_rows(states, pooled.so_far);
    }
    if (!chunk.sample) return base::Ok{};
    if (dense_layers_) pooled.so_far = dense_layers_->apply(device_->host_threads(), pooled.so_far);
    auto embedding = chunk.pooling == spec::Pooling::rank ? score_alone(pooled.so_far)
                                                          : to_embedding(pooled.so_far);
    if (embedding.ok()) {
        pooled = {{}, std::move(embedding).value()};
    } else {
        result.failed.push_back({chunk.key, embedding.error().message});
    }
    return base::Ok{};
}

base::Result<std::vector<float>> ModelRunner::score_alone(std::span<const double> state) const {
    TRY(const float score, pair_head_ ? pair_head_->score(state) : rank_score(rank_rows_, state));
    return std::vector<float>{score};
}

base::Status ModelRunner::apply_head(const Buffer& rows, std::int64_t n) {
    TRY_VOID(make_room(*device_, logits_, n * config_.vocab));
    const ops::Projection head[] = {{*head_, *logits_}};
    device_->matmul({rows, n, head});
    if (config_.logit_scale != 1.0F || config_.logit_softcap > 0)
        device_->scale_rows(
            {*logits_, n, config_.vocab, config_.logit_scale, config_.logit_softcap});
    return base::Ok{};
}

base::Result<std::span<const float>> ModelRunner::read_logits(std::int64_t first_row,
                                                              std::int64_t count) {
    return device_->read(*logits_, first_row * config_.vocab, count * config_.vocab);
}

base::Status ModelRunner::reduce(std::int64_t first_row, int n_top, bool sum) {
    const std::int64_t floats =
        ops::reduced_floats(reduced_.rows(), n_top, std::ssize(reduced_.named()));
    TRY_VOID(make_room(*device_, reduction_, floats));
    device_->reduce_logits({*logits_, first_row, reduced_.rows(), config_.vocab, n_top, sum,
                            reduced_.named(), *reduction_});
    TRY(const std::span<const float> read, device_->read(*reduction_, 0, floats));
    reduced_.set(read, config_.vocab, n_top);
    return base::Ok{};
}

base::Status ModelRunner::sample(BatchResult& result) {
    if (n_head_rows_ == 0) return base::Ok{};
    TRY_VOID(apply_head(*last_rows_, n_head_rows_));
    reduced_.clear();
    int n_top = 1;
    bool sum = false;
    for (std::size_t i = 0; i < to_sample_.size(); ++i) {
        const std::optional<ReductionNeeds>& needs = sampled_rows_[i].needs;
        if (!needs) continue;
        n_top = std::max(n_top, needs->n_top);
        sum = sum || needs->sum;
        for (std::int32_t row = 0; row <= to_sample_[i].chunk->drafts; ++row)
            reduced_.add_row(needs->named);
    }
    if (reduced_.rows() > 0) TRY_VOID(reduce(n_whole_rows_, n_top, sum));
    DrawLogits logits{config_.vocab, {}, &reduced_};
    if (n_whole_rows_ > 0) {
        TRY(logits.whole, read_logits(0, n_whole_rows_));
    }
    logits.read = [this](std::int64_t first, std::int64_t n) { return read_logits(first, n); };
    TRY(DrawnTokens drawn,
        draw_tokens(device_->host_threads(), samplers_, to_sample_, logits, options_.filter.get()));
    result.tokens = std::move(drawn.tokens);
    for (core::FailedSequence& failed : drawn.failed) {
        const bool known = std::any_of(result.failed.begin(), result.failed.end(),
                                       [&](const auto& f) { return f.key == failed.key; });
        if (!known) result.failed.push_back(std::move(failed));
    }
    return base::Ok{};
}

base::Result<BatchResult> ModelRunner::run(const core::BatchPlan& plan,
                                           const PayloadRows& payload) {
    BatchResult result;
    for (const core::BatchChunk& chunk : plan.chunks) TRY_VOID(check_chunk(chunk, plan));
    TRY_VOID(check_moves(plan, pages(), swap_pages()));
    if (kv_ != nullptr) TRY_VOID(kv_->move(plan));
    if (plan.chunks.empty()) return result;
    spec::LayerRange all = plan.chunks.front().layers;
    for (const core::BatchChunk& chunk : plan.chunks) {
        all = {std::min(all.begin, chunk.layers.begin), std::max(all.end, chunk.layers.end)};
    }
    result.output.resize(size_of(std::int64_t{plan.output_rows} * config_.hidden));
    active_.clear();
    to_sample_.clear();
    sampled_rows_.clear();
    n_head_rows_ = n_whole_rows_ = 0;
    for (std::int32_t layer = all.begin; layer < all.end; ++layer) {
        TRY_VOID(activate(plan, layer, payload));
        if (active_.empty()) continue;
        TRY_VOID(run_layer(layer));
        TRY_VOID(finish_chunks(layer, result));
    }
    TRY_VOID(sample(result));
    return result;
}

}  // namespace helix::engine
