#include "engine/arch/blocks.h"
#include "engine/cpu/kv_store_cpu.h"
#include "engine/ops/rope.h"

namespace helix::engine {
namespace {

std::int64_t q_width(const model::ModelConfig& config) {
    return std::int64_t{config.n_heads} * config.head_dim;
}

std::int64_t kv_width(const model::ModelConfig& config) {
    return std::int64_t{config.n_kv_heads} * config.head_dim;
}

// Heads [first, first + count) of a projection's row.
struct Heads {
    int first = 0;
    int count = 0;
    int head_dim = 0;

    std::int64_t offset() const { return std::int64_t{first} * head_dim; }
    std::int64_t width() const { return std::int64_t{count} * head_dim; }
};

// bias: of all heads, or empty; x: the row's part of these heads.
void add(const std::vector<float>& bias, const Heads& heads, float* x) {
    if (bias.empty()) return;
    const float* from = bias.data() + heads.offset();
    for (std::int64_t i = 0; i < heads.width(); ++i) x[i] += from[i];
}

void norm_heads(const ops::Kernels& kernels, const std::vector<float>& weight, float epsilon,
                int n_heads, float* x) {
    if (weight.empty()) return;
    const auto head_dim = static_cast<std::int64_t>(weight.size());
    for (int head = 0; head < n_heads; ++head, x += head_dim)
        kernels.rms_norm(x, weight.data(), head_dim, epsilon, x);
}

}  // namespace

std::vector<std::string> AttentionWeights::tensors(const model::ModelConfig& config) {
    std::vector<std::string> names{"attn_norm.weight", "attn_q.weight", "attn_k.weight",
                                   "attn_v.weight", "attn_output.weight"};
    if (config.qkv_bias) names.insert(names.end(), {"attn_q.bias", "attn_k.bias", "attn_v.bias"});
    if (config.qk_norm) names.insert(names.end(), {"attn_q_norm.weight", "attn_k_norm.weight"});
    return names;
}

base::Result<AttentionWeights> AttentionWeights::load(WeightLoader& loader,
                                                      const model::ModelConfig& config,
                                                      std::int32_t layer) {
    const auto name = [layer](const char* what) { return layer_tensor(layer, what); };
    const std::int64_t hidden = config.hidden;
    const std::int64_t queries = q_width(config);
    const std::int64_t keys = kv_width(config);
    AttentionWeights weights;
    TRY(weights.norm, loader.vector(name("attn_norm.weight"), hidden));
    TRY(weights.q, loader.matrix(name("attn_q.weight"), queries, hidden));
    TRY(weights.k, loader.matrix(name("attn_k.weight"), keys, hidden));
    TRY(weights.v, loader.matrix(name("attn_v.weight"), keys, hidden));
    TRY(weights.output, loader.matrix(name("attn_output.weight"), hidden, queries));
    if (config.qkv_bias) {
        TRY(weights.q_bias, loader.vector(name("attn_q.bias"), queries));
        TRY(weights.k_bias, loader.vector(name("attn_k.bias"), keys));
        TRY(weights.v_bias, loader.vector(name("attn_v.bias"), keys));
    }
    if (config.qk_norm) {
        TRY(weights.q_norm, loader.vector(name("attn_q_norm.weight"), config.head_dim));
        TRY(weights.k_norm, loader.vector(name("attn_k_norm.weight"), config.head_dim));
    }
    return weights;
}

void AttentionRunner::run(const Device& device, const model::ModelConfig& config,
                          const AttentionWeights& weights, std::int32_t layer,
                          const LayerRows& rows, NormedRows& normed) {
    const std::int64_t queries = q_width(config);
    const std::int64_t keys = kv_width(config);
    make_room(q_, rows.rows * queries);
    make_room(k_, rows.rows * keys);
    make_room(v_, rows.rows * keys);
    make_room(attended_, rows.rows * queries);
    normed.run(device, rows, weights.norm, config.norm_epsilon);
    const ops::MatmulJob qkv[] = {{&weights.q, {q_.data(), queries, false}},
                                  {&weights.k, {k_.data(), keys, false}},
                                  {&weights.v, {v_.data(), keys, false}}};
    ops::matmul(device.kernels, device.pool, normed.rows(), qkv);
    prepare_and_store(device, config, weights, rows);

    sequences_.clear();
    for (const LayerSequence& s : rows.sequences) {
        sequences_.push_back({s.first_row, s.rows, s.first_position, s.pages});
    }
    const ops::AttentionShape shape{config.n_heads, config.window_of(layer)};
    attention_.run(device.kernels, device.pool, device.kv, shape, sequences_, q_.data(),
                   attended_.data());
    matmul_rows_.set(attended_.data(), rows.rows, queries);
    const ops::MatmulJob output[] = {{&weights.output, {rows.hidden.data(), config.hidden, true}}};
    ops::matmul(device.kernels, device.pool, matmul_rows_, output);
}

// Each rank does its own heads. Every row's keys are in place before any row attends to them.
void AttentionRunner::prepare_and_store(const Device& device, const model::ModelConfig& config,
                                        const AttentionWeights& weights, const LayerRows& rows) {
    const auto rope_dim = static_cast<std::size_t>(config.rope_dim);
    row_sequence_.clear();
    for (const LayerSequence& s : rows.sequences) {
        row_sequence_.insert(row_sequence_.end(), static_cast<std::size_t>(s.rows), &s);
    }
    const int ranks = device.kv.ranks;
    const int n_queries = config.n_heads / ranks;
    const int n_keys = config.n_kv_heads / ranks;
    device.pool.run_ranks(rows.rows, [&](int rank, std::int64_t row, int) {
        const LayerSequence& s = *row_sequence_[static_cast<std::size_t>(row)];
        const auto table = rows.rope.subspan(static_cast<std::size_t>(row) * rope_dim, rope_dim);
        const Heads queries{rank * n_queries, n_queries, config.head_dim};
        const Heads keys{rank * n_keys, n_keys, config.head_dim};
        float* q = q_.data() + row * q_width(config) + queries.offset();
        float* k = k_.data() + row * kv_width(config) + keys.offset();
        float* v = v_.data() + row * kv_width(config) + keys.offset();
        add(weights.q_bias, queries, q);
        add(weights.k_bias, keys, k);
        add(weights.v_bias, keys, v);
        norm_heads(device.kernels, weights.q_norm, config.norm_epsilon, n_queries, q);
        norm_heads(device.kernels, weights.k_norm, config.norm_epsilon, n_keys, k);
        ops::rope_row(table, config.rope_pairs, n_queries, config.head_dim, q);
        ops::rope_row(table, config.rope_pairs, n_keys, config.head_dim, k);
        const auto position = s.first_position + static_cast<std::int32_t>(row - s.first_row);
        ops::kv_store(device.kernels, device.kv, rank, k, v, position % device.kv.block_size,
                      s.pages[position / device.kv.block_size]);
    });
}

}  // namespace helix::engine
