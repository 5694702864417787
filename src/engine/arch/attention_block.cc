#include "engine/arch/blocks.h"

namespace helix::engine {
namespace {

std::int64_t q_width(const model::ModelConfig& config) {
    return std::int64_t{config.n_heads} * config.head_dim;
}

std::int64_t kv_width(const model::ModelConfig& config) {
    return std::int64_t{config.n_kv_heads} * config.head_dim;
}

// The rows of queries, keys and values in the tensor that has them all.
std::vector<std::int64_t> qkv_rows(const model::ModelConfig& config) {
    return {q_width(config), kv_width(config), kv_width(config)};
}

// Of the tensors that are loaded whole.
std::vector<std::string> whole_tensors(const model::ModelConfig& config) {
    std::vector<std::string> names{"attn_output.weight"};
    if (!config.fused_qkv)
        names.insert(names.end(), {"attn_q.weight", "attn_k.weight", "attn_v.weight"});
    if (config.input_norms) names.emplace_back("attn_norm.weight");
    if (config.output_bias) names.emplace_back("attn_output.bias");
    if (config.attention_sinks) names.emplace_back("attn_sinks.weight");
    if (config.output_norms) names.emplace_back("post_attention_norm.weight");
    if (config.qkv_bias) names.insert(names.end(), {"attn_q.bias", "attn_k.bias", "attn_v.bias"});
    if (config.qk_norm != model::QkNorm::none)
        names.insert(names.end(), {"attn_q_norm.weight", "attn_k_norm.weight"});
    return names;
}

base::Status load_projections(WeightLoader& loader, const model::ModelConfig& config,
                              std::int32_t layer, AttentionWeights& weights) {
    const auto name = [layer](const char* what) { return layer_tensor(layer, what); };
    if (config.fused_qkv) {
        TRY(auto parts,
            loader.split_matrix(name("attn_qkv.weight"), qkv_rows(config), config.hidden));
        weights.q = std::move(parts[0]);
        weights.k = std::move(parts[1]);
        weights.v = std::move(parts[2]);
        return base::Ok{};
    }
    TRY(weights.q, loader.matrix(name("attn_q.weight"), q_width(config), config.hidden));
    TRY(weights.k, loader.matrix(name("attn_k.weight"), kv_width(config), config.hidden));
    TRY(weights.v, loader.matrix(name("attn_v.weight"), kv_width(config), config.hidden));
    return base::Ok{};
}

}  // namespace

base::Result<std::int64_t> AttentionWeights::bytes(const WeightLoader& loader,
                                                   const model::ModelConfig& config,
                                                   std::int32_t layer) {
    TRY(std::int64_t sum, tensors_bytes(loader, layer, whole_tensors(config)));
    if (config.fused_qkv) {
        TRY(const std::int64_t fused,
            loader.split_bytes(layer_tensor(layer, "attn_qkv.weight"), qkv_rows(config)));
        sum += fused;
    }
    return sum;
}

base::Result<AttentionWeights> AttentionWeights::load(WeightLoader& loader,
                                                      const model::ModelConfig& config,
                                                      std::int32_t layer) {
    const auto name = [layer](const char* what) { return layer_tensor(layer, what); };
    const std::int64_t hidden = config.hidden;
    const std::int64_t queries = q_width(config);
    const std::int64_t keys = kv_width(config);
    AttentionWeights weights;
    if (config.input_norms) {
        TRY(weights.norm, loader.vector(name("attn_norm.weight"), hidden));
    }
    TRY_VOID(load_projections(loader, config, layer, weights));
    TRY(weights.output, loader.matrix(name("attn_output.weight"), hidden, queries));
    if (config.output_bias) {
        TRY(weights.output_bias, loader.vector(name("attn_output.bias"), hidden));
    }
    if (config.attention_sinks) {
        TRY(weights.sinks, loader.vector(name("attn_sinks.weight"), config.n_heads));
    }
    if (config.output_norms) {
        TRY(weights.output_norm, loader.vector(name("post_attention_norm.weight"), hidden));
    }
    if (config.qkv_bias) {
        TRY(weights.q_bias, loader.vector(name("attn_q.bias"), queries));
        TRY(weights.k_bias, loader.vector(name("attn_k.bias"), keys));
        TRY(weights.v_bias, loader.vector(name("attn_v.bias"), keys));
    }
    if (config.qk_norm != model::QkNorm::none) {
        const bool whole = config.qk_norm == model::QkNorm::projection;
        TRY(weights.q_norm,
            loader.vector(name("attn_q_norm.weight"), whole ? queries : config.head_dim));
        TRY(weights.k_norm,
            loader.vector(name("attn_k_norm.weight"), whole ? keys : config.head_dim));
    }
    return weights;
}

void AttentionRunner::prepare_heads(Device& device, const model::ModelConfig& config,
                                    const AttentionWeights& weights, std::int32_t layer,
                                    const LayerRows& rows) {
    const bool of_heads = config.qk_norm == model::QkNorm::heads;
    if (config.qk_norm == model::QkNorm::projection) {
        device.rms_norm(
            {*q_, *weights.q_norm, *q_, rows.rows, q_width(config), config.norm_epsilon});
        device.rms_norm(
            {*k_, *weights.k_norm, *k_, rows.rows, kv_width(config), config.norm_epsilon});
    }
    const bool rotates = config.rotates(layer);
    const ops::ProjectedHeads heads[] = {
        {*q_, config.n_heads, weights.q_bias.get(), of_heads ? weights.q_norm.get() : nullptr,
         rotates},
        {*k_, config.n_kv_heads, weights.k_bias.get(), of_heads ? weights.k_norm.get() : nullptr,
         rotates},
        {*v_, config.n_kv_heads, weights.v_bias.get(), nullptr, false}};
    device.rope({heads, rows.angles, rows.rows, config.head_dim, config.rope_dim, config.rope_pairs,
                 config.norm_epsilon});
}

base::Status AttentionRunner::run(Device& device, const model::ModelConfig& config,
                                  const AttentionWeights& weights, std::int32_t layer,
                                  const LayerRows& rows, BlockRows& shared) {
    TRY_VOID(make_room(device, q_, rows.rows * q_width(config)));
    TRY_VOID(make_room(device, k_, rows.rows * kv_width(config)));
    TRY_VOID(make_room(device, v_, rows.rows * kv_width(config)));
    TRY_VOID(make_room(device, attended_, rows.rows * q_width(config)));
    TRY_VOID(shared.normed.run(device, config, rows, weights.norm.get()));
    const ops::Projection qkv[] = {{*weights.q, *q_}, {*weights.k, *k_}, {*weights.v, *v_}};
    device.matmul({shared.normed.values(), rows.rows, qkv});
    prepare_heads(device, config, weights, layer, rows);
    // Every row's keys are in place before any row attends to them.
    device.kv_store({rows.kv, *k_, *v_, rows.sequences});
    device.attention({rows.kv, *q_, *attended_, config.n_heads, config.window_of(layer),
                      rows.sequences, config.attention_scale, config.attention_softcap,
                      weights.sinks.get()});
    return shared.added.run(device, config, *weights.output, *attended_, weights.output_norm.get(),
                            rows, weights.output_bias.get());
}

}  // namespace helix::engine
