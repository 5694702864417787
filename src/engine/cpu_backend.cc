#include "engine/cpu_backend.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/index.h"
#include "base/machine.h"
#include "engine/ops/kv_type.h"
#include "engine/ops/rope.h"

namespace helix::engine {
namespace {

constexpr const char* kEmbedding = "token_embd.weight";
constexpr const char* kOutputNorm = "output_norm.weight";
constexpr const char* kHead = "output.weight";
constexpr std::int64_t kScoredRows = 64;  // that the head gets at once: their logits stay small

using base::size_of;

void resize(std::vector<float>& buffer, std::int64_t size) {
    if (buffer.size() < size_of(size)) buffer.resize(size_of(size));
}

// Cores that a thread can be pinned to are numbered below it.
int machine_cores() {
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

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

ThreadPlaces places(const CpuOptions& options) {
    return place_threads(options.threads, options.ranks, options.cpus,
                         options.ranks > 1 ? read_numa_nodes() : NumaNodes());
}

}  // namespace

base::Status check_ranks(int ranks, int threads, const model::ModelConfig& config) {
    if (ranks < 1) return base::invalid(fmt::format("{} tensor parallel ranks: at least 1", ranks));
    if (config.n_kv_heads % ranks != 0) {
        return base::invalid(
            fmt::format("{} tensor parallel ranks cannot share the model's {} key-value heads "
                        "evenly",
                        ranks, config.n_kv_heads));
    }
    if (ranks > threads) {
        return base::invalid(fmt::format(
            "{} tensor parallel ranks need a thread each; there are {}", ranks, threads));
    }
    return base::Ok{};
}

base::Result<std::unique_ptr<Backend>> CpuBackend::create(
    std::shared_ptr<model::WeightSource> weights, model::ModelConfig config, CpuOptions options) {
    CHECK(weights != nullptr);
    TRY_VOID(check_config(config));
    if (options.block_size < 1)
        return base::invalid(fmt::format("block size {}: at least 1", options.block_size));
    if (options.threads < 0) return base::invalid(fmt::format("{} threads", options.threads));
    if (options.memory_bytes < 0 || options.swap_bytes < 0)
        return base::invalid("the memory budget is negative");
    if (options.isa && !ops::supported(*options.isa)) {
        return base::invalid(fmt::format("this machine has no {}", ops::to_string(*options.isa)));
    }
    const int cores = machine_cores();
    for (const int cpu : options.cpus) {
        if (cpu < 0 || cpu >= cores)
            return base::invalid(fmt::format("core {}: this machine has {}", cpu, cores));
    }
    if (options.threads == 0)
        options.threads =
            options.cpus.empty() ? base::usable_threads() : static_cast<int>(options.cpus.size());
    TRY_VOID(check_ranks(options.ranks, options.threads, config));
    TRY(auto architecture, make_architecture(config));
    return std::unique_ptr<Backend>(new CpuBackend(std::move(weights), std::move(config),
                                                   std::move(options), std::move(architecture)));
}

CpuBackend::CpuBackend(std::shared_ptr<model::WeightSource> weights, model::ModelConfig config,
                       CpuOptions options, std::unique_ptr<Architecture> architecture)
    : weights_(std::move(weights)),
      config_(std::move(config)),
      options_(std::move(options)),
      architecture_(std::move(architecture)),
      kernels_(ops::kernels(options_.isa.value_or(ops::best_isa()))),
      pool_(places(options_)),
      kv_layout_{options_.kv_type,    config_.n_kv_heads, config_.head_dim,
                 options_.block_size, options_.ranks,     0},
      samplers_(size_of(options_.threads), Sampler(kernels_)) {}

CpuBackend::~CpuBackend() {
    drop_embedding();
}

// ---- pages that move
// ------------------------------------------------------------------------------

std::string CpuBackend::kv_format() const {
    const ops::KvLayout& layout = kv_layout_;
    return fmt::format("{} {}x{}x{}", ops::to_string(layout.type), layout.block_size,
                       layout.n_kv_heads, layout.head_dim);
}

base::Status CpuBackend::read_pages(std::span<const core::PageId> pages,
                                    std::span<std::byte> bytes) const {
    TRY_VOID(check_pages(pages, kv_.pages(), bytes.size()));
    for (std::size_t i = 0; i < pages.size(); ++i) {
        kv_.read(pages[i], kv_layout_, bytes.data() + i * size_of(kv_page_bytes()));
    }
    return base::Ok{};
}

base::Status CpuBackend::write_pages(std::span<const core::PageId> pages,
                                     std::span<const std::byte> bytes) {
    TRY_VOID(check_pages(pages, kv_.pages(), bytes.size()));
    for (std::size_t i = 0; i < pages.size(); ++i) {
        kv_.write(pages[i], kv_layout_, bytes.data() + i * size_of(kv_page_bytes()));
    }
    return base::Ok{};
}

// ---- loading
// --------------------------------------------------------------------------------------

base::Result<std::int64_t> CpuBackend::weight_bytes(const WeightLoader& loader,
                                                    spec::LayerRange layers) const {
    std::int64_t sum = 0;
    for (std::int32_t l = layers.begin; l < layers.end; ++l) {
        TRY(const std::int64_t bytes, architecture_->layer_bytes(loader, l));
        sum += bytes;
    }
    if (layers.begin == 0) {
        TRY(const std::int64_t bytes, loader.bytes(kEmbedding));
        sum += bytes;
    }
    if (layers.end == config_.n_layers) {
        TRY(const std::int64_t head, loader.bytes(config_.tied_embeddings ? kEmbedding : kHead));
        TRY(const std::int64_t norm, loader.bytes(kOutputNorm));
        sum += head + norm;
    }
    return sum;
}

base::Status CpuBackend::load_weights(WeightLoader& loader, spec::LayerRange layers) {
    for (std::int32_t l = 0; l < config_.n_layers; ++l) {
        if (!layers.contains(l)) architecture_->drop_layer(l);
    }
    if (layers.begin > 0) drop_embedding();
    const bool needs_head = layers.end == config_.n_layers;
    if (!needs_head) drop_head();
    // In this order: what is large is unpacked beside little else, and a tied head is packed while
    // the embedding is in use, so that a source that makes or fetches it does so once.
    if (layers.begin == 0 && embedding_.empty()) TRY_VOID(load_embedding());
    if (needs_head && output_norm_.empty()) {
        TRY(head_, loader.matrix(config_.tied_embeddings ? kEmbedding : kHead, config_.vocab,
                                 config_.hidden));
        TRY(output_norm_, loader.vector(kOutputNorm, config_.hidden));
    }
    for (std::int32_t l = layers.begin; l < layers.end; ++l) {
        if (!architecture_->has_layer(l)) TRY_VOID(architecture_->load_layer(loader, l));
    }
    return base::Ok{};
}

void CpuBackend::drop_head() {
    head_ = {};
    output_norm_.clear();
}

base::Status CpuBackend::load_embedding() {
    const model::TensorInfo* info = weights_->file().find_tensor(kEmbedding);
    CHECK(info != nullptr);
    if (info->row_length() != config_.hidden || info->rows() != config_.vocab) {
        return base::invalid(fmt::format("tensor {}: shape {} x {} expected, {} x {} found",
                                         kEmbedding, config_.vocab, config_.hidden, info->rows(),
                                         info->row_length()));
    }
    TRY(embedding_, weights_->tensor(kEmbedding));
    CHECK(embedding_.size() == info->bytes);
    embedding_type_ = info->type;
    return base::Ok{};
}

void CpuBackend::drop_embedding() {
    if (!embedding_.empty()) weights_->release(kEmbedding);
    embedding_ = {};
}

void CpuBackend::drop_kv() {
    layers_ = {};
    kv_.clear();
}

base::Result<std::int64_t> CpuBackend::load(spec::LayerRange layers) {
    drop_kv();
    WeightLoader loader(*weights_, pool_);
    if (layers.empty()) {
        for (std::int32_t l = 0; l < config_.n_layers; ++l) architecture_->drop_layer(l);
        drop_head();
        drop_embedding();
        return std::int64_t{0};
    }
    if (layers.begin < 0 || layers.end > config_.n_layers) {
        return base::invalid(fmt::format("layers [{}, {}) of a model with {}", layers.begin,
                                         layers.end, config_.n_layers));
    }
    TRY(const std::int64_t weights, weight_bytes(loader, layers));
    const std::int64_t budget =
        options_.memory_bytes > 0 ? options_.memory_bytes : base::usable_memory_bytes() / 5 * 4;
    const std::int64_t page = kv_layout_.page_bytes();
    const std::int64_t least = weights + layers.size() * page;
    if (least > budget) {
        return base::Error{
            base::Errc::unavailable,
            fmt::format("layers [{}, {}) need {} bytes of weights and at least {} of KV pages; the "
                        "memory budget is {}: {} bytes are missing",
                        layers.begin, layers.end, weights, layers.size() * page, budget,
                        least - budget)};
    }
    loader.expect(weights);
    TRY_VOID(load_weights(loader, layers));
    constexpr std::int64_t kMaxPages = 1LL << 31;
    const std::int64_t pages = std::min((budget - weights) / page, kMaxPages);
    const std::int64_t swap_pages = std::min(options_.swap_bytes / page, kMaxPages);
    TRY_VOID(kv_.allocate(pages, swap_pages, options_.ranks, kv_layout_.rank_page_bytes()));
    kv_layout_.rank_stride = kv_.rank_stride();
    layers_ = layers;
    return pages;
}

// ---- running
// --------------------------------------------------------------------------------------

base::Status CpuBackend::check_chunk(const core::BatchChunk& chunk,
                                     const core::BatchPlan& plan) const {
    const auto bad = [&](std::string what) {
        return base::invalid(
            fmt::format("request {} in batch {}: {}", chunk.key.request.value, plan.id, what));
    };
    if (chunk.layers.empty() || !layers_.contains(chunk.layers)) {
        return bad(fmt::format("layers [{}, {}) are not within [{}, {}), which are loaded",
                               chunk.layers.begin, chunk.layers.end, layers_.begin, layers_.end));
    }
    const std::int64_t rows = std::ssize(chunk.tokens);
    const std::int64_t blocks = std::ssize(chunk.pages) / chunk.layers.size();
    if (rows == 0 || chunk.first_position < 0) return bad("it has no rows or a negative position");
    if (std::ssize(chunk.pages) % chunk.layers.size() != 0 ||
        blocks * options_.block_size < chunk.first_position + rows) {
        return bad(fmt::format("{} pages for {} layers cannot hold {} positions",
                               chunk.pages.size(), chunk.layers.size(),
                               chunk.first_position + rows));
    }
    for (const core::PageId page : chunk.pages) {
        if (page >= kv_.pages()) return bad(fmt::format("page {} of {}", page, kv_.pages()));
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
    if ((chunk.sample || !chunk.scored.empty()) && chunk.layers.end != config_.n_layers) {
        return bad(fmt::format("cannot sample after layer {}", chunk.layers.end));
    }
    if (std::ssize(chunk.scored) > rows)
        return bad(fmt::format("{} tokens follow {} rows", chunk.scored.size(), rows));
    if (!chunk.scored.empty() && chunk.sampling.n_logprobs < 0)
        return bad("tokens are to be scored without log-probabilities");
    if (chunk.drafts < 0 || chunk.drafts >= rows || chunk.draws < 1 ||
        (chunk.drafts > 0 && chunk.draws > 1)) {
        return bad(
            fmt::format("{} guesses and {} draws on {} rows", chunk.drafts, chunk.draws, rows));
    }
    if (chunk.sample && chunk.sampling.needs_history() &&
        std::ssize(chunk.history) - chunk.drafts < chunk.prompt_tokens) {
        return bad(fmt::format("{} tokens of history with a prompt of {}",
                               std::ssize(chunk.history) - chunk.drafts, chunk.prompt_tokens));
    }
    return base::Ok{};
}

base::Status CpuBackend::copy_input(const core::BatchChunk& chunk, const PayloadRows& payload,
                                    float* rows) const {
    const std::int64_t hidden = config_.hidden;
    const std::int64_t n = std::ssize(chunk.tokens);
    if (chunk.layers.begin == 0) {
        const std::int64_t row_bytes = std::ssize(embedding_) / config_.vocab;
        for (std::int64_t r = 0; r < n; ++r) {
            const auto at = size_of(chunk.tokens[size_of(r)] * row_bytes);
            model::dequantize_row(embedding_type_, embedding_.subspan(at, size_of(row_bytes)),
                                  rows + r * hidden);
        }
        return base::Ok{};
    }
    const std::span<const float> input = payload(chunk.input);
    if (std::ssize(input) != n * hidden) {
        return base::invalid(
            fmt::format("request {}: {} activations expected for {} rows, {} received",
                        chunk.key.request.value, n * hidden, n, input.size()));
    }
    std::memcpy(rows, input.data(), input.size_bytes());
    return base::Ok{};
}

// Makes the rows of exactly the chunks that run this layer active.
base::Status CpuBackend::activate(const core::BatchPlan& plan, std::int32_t layer,
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
    const auto rope_dim = size_of(config_.rope_dim);
    resize(next_hidden_, rows * hidden);
    resize(rope_, rows * config_.rope_dim);
    for (const ActiveChunk& next : next_active_) {
        const core::BatchChunk& chunk = *next.chunk;
        float* to = next_hidden_.data() + next.first_row * hidden;
        if (chunk.layers.begin == layer) {
            TRY_VOID(copy_input(chunk, payload, to));
        } else {
            const auto old =
                std::find_if(active_.begin(), active_.end(),
                             [&](const ActiveChunk& a) { return a.chunk == next.chunk; });
            std::copy_n(hidden_.data() + old->first_row * hidden, std::ssize(chunk.tokens) * hidden,
                        to);
        }
        for (std::size_t r = 0; r < chunk.tokens.size(); ++r) {
            ops::rope_table(
                config_, chunk.first_position + static_cast<std::int32_t>(r),
                std::span(rope_).subspan((size_of(next.first_row) + r) * rope_dim, rope_dim));
        }
    }
    std::swap(hidden_, next_hidden_);
    std::swap(active_, next_active_);
    return base::Ok{};
}

void CpuBackend::run_layer(std::int32_t layer) {
    sequences_.clear();
    pages_.clear();
    std::int64_t rows = 0;
    for (const ActiveChunk& active : active_) {
        const core::BatchChunk& chunk = *active.chunk;
        const std::size_t blocks = chunk.pages.size() / size_of(chunk.layers.size());
        const std::size_t first = size_of(layer - chunk.layers.begin) * blocks;
        for (std::size_t b = 0; b < blocks; ++b) {
            pages_.push_back(kv_.page(chunk.pages[first + b]));
        }
        rows += std::ssize(chunk.tokens);
    }
    std::size_t at = 0;
    for (const ActiveChunk& active : active_) {
        const core::BatchChunk& chunk = *active.chunk;
        sequences_.push_back(
            {active.first_row, std::ssize(chunk.tokens), chunk.first_position, pages_.data() + at});
        at += chunk.pages.size() / size_of(chunk.layers.size());
    }
    const Device device{kernels_, pool_, kv_layout_};
    const LayerRows layer_rows{std::span(hidden_).first(size_of(rows * config_.hidden)),
                               std::span(rope_).first(size_of(rows * config_.rope_dim)), sequences_,
                               rows};
    architecture_->run_layer(device, layer, layer_rows);
}

// Hands on the rows of the chunks whose last layer this was.
void CpuBackend::finish_chunks(std::int32_t layer, BatchResult& result) {
    const std::int64_t hidden = config_.hidden;
    for (const ActiveChunk& active : active_) {
        const core::BatchChunk& chunk = *active.chunk;
        if (chunk.layers.end != layer + 1) continue;
        const float* rows = hidden_.data() + active.first_row * hidden;
        const std::int64_t n = std::ssize(chunk.tokens);
        if (chunk.output_row >= 0) {
            std::copy_n(rows, n * hidden, result.output.data() + chunk.output_row * hidden);
        }
        if (!chunk.scored.empty()) score(chunk, rows, result);
        if (chunk.sample) {
            to_sample_.push_back({&chunk, n_head_rows_});
            resize(last_rows_, (n_head_rows_ + chunk.drafts + 1) * hidden);
            for (std::int64_t r = n - 1 - chunk.drafts; r < n; ++r) {
                kernels_.rms_norm(rows + r * hidden, output_norm_.data(), hidden,
                                  config_.norm_epsilon,
                                  last_rows_.data() + n_head_rows_++ * hidden);
            }
        }
    }
}

void CpuBackend::score(const core::BatchChunk& chunk, const float* rows, BatchResult& result) {
    const std::int64_t hidden = config_.hidden;
    const std::int64_t vocab = config_.vocab;
    const std::int64_t n = std::ssize(chunk.scored);
    const std::size_t first_scored = result.scored.size();
    result.scored.resize(first_scored + size_of(n));
    base::Status status = base::Ok{};
    for (std::int64_t first = 0; first < n; first += kScoredRows) {
        const std::int64_t count = std::min(kScoredRows, n - first);
        resize(scored_rows_, count * hidden);
        for (std::int64_t r = 0; r < count; ++r) {
            kernels_.rms_norm(rows + (first + r) * hidden, output_norm_.data(), hidden,
                              config_.norm_epsilon, scored_rows_.data() + r * hidden);
        }
        apply_head(scored_rows_.data(), count);
        const auto scored =
            std::span(result.scored).subspan(first_scored + size_of(first), size_of(count));
        const base::Status piece =
            score_tokens(pool_, samplers_, chunk, first,
                         std::span(logits_).first(size_of(count * vocab)), scored);
        if (status.ok()) status = piece;
    }
    if (!status.ok()) result.failed.push_back({chunk.key, status.error().message});
}

void CpuBackend::apply_head(const float* rows, std::int64_t n) {
    resize(logits_, n * config_.vocab);
    head_rows_.set(rows, n, config_.hidden);
    const ops::MatmulJob head[] = {{&head_, {logits_.data(), config_.vocab, false}}};
    ops::matmul(kernels_, pool_, head_rows_, head);
}

void CpuBackend::sample(BatchResult& result) {
    const std::int64_t rows = n_head_rows_;
    if (rows == 0) return;
    apply_head(last_rows_.data(), rows);
    DrawnTokens drawn =
        draw_tokens(pool_, samplers_, to_sample_, logits_, config_.vocab, options_.filter.get());
    result.tokens = std::move(drawn.tokens);
    for (core::FailedSequence& failed : drawn.failed) {
        const bool known = std::any_of(result.failed.begin(), result.failed.end(),
                                       [&](const auto& f) { return f.key == failed.key; });
        if (!known) result.failed.push_back(std::move(failed));
    }
}

base::Result<BatchResult> CpuBackend::run(const core::BatchPlan& plan, const PayloadRows& payload) {
    BatchResult result;
    for (const core::BatchChunk& chunk : plan.chunks) TRY_VOID(check_chunk(chunk, plan));
    TRY_VOID(kv_.move(plan, pool_));
    if (plan.chunks.empty()) return result;
    spec::LayerRange all = plan.chunks.front().layers;
    for (const core::BatchChunk& chunk : plan.chunks) {
        all = {std::min(all.begin, chunk.layers.begin), std::max(all.end, chunk.layers.end)};
    }
    result.output.resize(size_of(std::int64_t{plan.output_rows} * config_.hidden));
    active_.clear();
    to_sample_.clear();
    n_head_rows_ = 0;
    for (std::int32_t layer = all.begin; layer < all.end; ++layer) {
        TRY_VOID(activate(plan, layer, payload));
        if (active_.empty()) continue;
        run_layer(layer);
        finish_chunks(layer, result);
    }
    sample(result);
    return result;
}

}  // namespace helix::engine
