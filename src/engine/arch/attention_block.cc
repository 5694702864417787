#include "engine/arch/blocks.h"

namespace helix::engine {
namespace {

std::int64_t q_width(const model::ModelConfig& config) {
    return std::int64_t{config.n_heads} * config.head_dim;
}

std::int64_t kv_width(const model::ModelConfig& config) {
    return std::int64_t{config.n_kv_heads} * config.head_dim;
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

base::Status AttentionRunner::run(Device& device, const model::ModelConfig& config,
                                  const AttentionWeights& weights, std::int32_t layer,
                                  const LayerRows& rows, NormedRows& normed) {
    TRY_VOID(make_room(device, q_, rows.rows * q_width(config)));
    TRY_VOID(make_room(device, k_, rows.rows * kv_width(config)));
    TRY_VOID(make_room(device, v_, rows.rows * kv_width(config)));
    TRY_VOID(make_room(device, attended_, rows.rows * q_width(config)));
    TRY_VOID(normed.run(device, rows, *weights.norm, config.norm_epsilon));
    const ops::Projection qkv[] = {{*weights.q, *q_}, {*weights.k, *k_}, {*weights.v, *v_}};
    device.matmul({normed.values(), rows.rows, qkv});
    const ops::ProjectedHeads heads[] = {
        {*q_, config.n_heads, weights.q_bias.get(), weights.q_norm.get()},
        {*k_, config.n_kv_heads, weights.k_bias.get(), weights.k_norm.get()},
        {*v_, config.n_kv_heads, weights.v_bias.get(), nullptr, false}};
    device.rope({heads, rows.angles, rows.rows, config.head_dim, config.rope_dim, config.rope_pairs,
                 config.norm_epsilon});
    // Every row's keys are in place before any row attends to them.
    device.kv_store({rows.kv, *k_, *v_, rows.sequences});
    device.attention(
        {rows.kv, *q_, *attended_, config.n_heads, config.window_of(layer), rows.sequences});
    const ops::Projection output[] = {{*weights.output, rows.hidden, true}};
    device.matmul({*attended_, rows.rows, output});
    return base::Ok{};
}

}  // namespace helix::engine
