#include "engine/arch/blocks.h"

#include <bit>
#include <cmath>
#include <iterator>
#include <span>

#include "base/index.h"

namespace helix::engine {
namespace {

constexpr const char* kSumNorm = "attn_output_norm";
constexpr const char* kSecondSumNorm = "attn_norm_2";

std::int64_t q_width(const model::ModelConfig& config, std::int32_t layer) {
    return std::int64_t{config.n_heads} * config.head_dim_of(layer);
}

std::int64_t kv_width(const model::ModelConfig& config, std::int32_t layer) {
    return std::int64_t{config.kv_heads_of(layer)} * config.head_dim_of(layer);
}

// Press and others, Train Short, Test Long, 2021: 2^(-8 h / n) for the heads h = 1, 2, ... of n, a
// power of two. Of another number of heads the first ones have those of the greatest power below,
// and the others every second one, from the first on, of twice so many.
std::vector<float> alibi_slopes(std::int32_t n_heads) {
    const auto power =
        static_cast<std::int32_t>(std::bit_floor(static_cast<std::uint32_t>(n_heads)));
    std::vector<float> slopes;
    for (std::int32_t head = 0; head < n_heads; ++head) {
        const double exponent =
            head < power ? -8.0 * (head + 1) / power : -4.0 * (2 * (head - power) + 1) / power;
        slopes.push_back(static_cast<float>(std::exp2(exponent)));
    }
    return slopes;
}

// The rows of queries, keys and values in the tensor that has them all.
std::vector<std::int64_t> qkv_rows(const model::ModelConfig& config, std::int32_t layer) {
    return {q_width(config, layer), kv_width(config, layer), kv_width(config, layer)};
}

// Of the tensors that are loaded whole.
std::vector<std::string> whole_tensors(const model::ModelConfig& config, std::int32_t layer) {
    std::vector<std::string> names{"attn_output.weight"};
    const bool own_keys = !config.shares_kv(layer);
    if (!config.fused_qkv) names.emplace_back("attn_q.weight");
    if (!config.fused_qkv && own_keys) names.emplace_back("attn_k.weight");
    if (!config.fused_qkv && own_keys && config.has_values(layer))
        names.emplace_back("attn_v.weight");
    if (config.has_attention_norm(layer)) names.emplace_back("attn_norm.weight");
    if (config.norm_bias) names.emplace_back("attn_norm.bias");
    if (config.output_bias) names.emplace_back("attn_output.bias");
    if (config.attention_sinks) names.emplace_back("attn_sinks.weight");
    if (config.output_norms) names.emplace_back("post_attention_norm.weight");
    if (config.qkv_bias && !config.fused_qkv)
        names.insert(names.end(), {"attn_q.bias", "attn_k.bias", "attn_v.bias"});
    if (config.has_qk_weights()) names.emplace_back("attn_q_norm.weight");
    if (config.has_qk_weights() && own_keys) names.emplace_back("attn_k_norm.weight");
    if (config.qk_norm == model::QkNorm::centred_projection)
        names.insert(names.end(), {"attn_q_norm.bias", "attn_k_norm.bias"});
    for (std::string& name : SumNorm::tensors(config, kSumNorm)) names.push_back(std::move(name));
    if (!config.normed_twice) return names;
    for (std::string& name : SumNorm::tensors(config, kSecondSumNorm))
        names.push_back(std::move(name));
    return names;
}

// With weights of its own.
void norm_each_head(Device& device, const model::ModelConfig& config, std::int32_t layer,
                    const Buffer& weight, std::int32_t n_heads, std::int64_t rows, Buffer& x) {
    device.layer_norm(
        {x, weight, x, rows * n_heads, config.head_dim_of(layer), config.norm_epsilon, n_heads});
}

// All heads of a row together, behind their bias; rope adds that of the norm.
void norm_all_heads(Device& device, const model::ModelConfig& config, const Buffer& bias,
                    const Buffer& weight, std::int64_t rows, Buffer& x) {
    device.add_bias({x, bias, rows, weight.size()});
    device.layer_norm({x, weight, x, rows, weight.size(), config.norm_epsilon});
}

base::Status load_projections(WeightLoader& loader, const model::ModelConfig& config,
                              std::int32_t layer, AttentionWeights& weights) {
    const auto name = [layer](const char* what) { return layer_tensor(layer, what); };
    if (config.fused_qkv) {
        TRY(auto parts, loader.split_matrices(name("attn_qkv.weight"), 1, qkv_rows(config, layer),
                                              config.hidden));
        weights.q = std::move(parts[0]);
        weights.k = std::move(parts[1]);
        weights.v = std::move(parts[2]);
        return base::Ok{};
    }
    const std::int64_t kv = kv_width(config, layer);
    TRY(weights.q, loader.matrix(name("attn_q.weight"), q_width(config, layer), config.hidden));
    if (config.shares_kv(layer)) return base::Ok{};
    TRY(weights.k, loader.matrix(name("attn_k.weight"), kv, config.hidden));
    if (config.has_values(layer)) {
        TRY(weights.v, loader.matrix(name("attn_v.weight"), kv, config.hidden));
    }
    return base::Ok{};
}

base::Status load_qk_norms(WeightLoader& loader, const model::ModelConfig& config,
                           std::int32_t layer, AttentionWeights& weights) {
    const auto name = [layer](const char* what) { return layer_tensor(layer, what); };
    const std::int64_t queries = q_width(config, layer);
    const std::int64_t keys = kv_width(config, layer);
    if (config.has_qk_weights()) {
        const bool whole = config.qk_norm != model::QkNorm::heads;
        const std::int64_t head_dim = config.head_dim_of(layer);
        TRY(weights.q_norm, loader.vector(name("attn_q_norm.weight"), whole ? queries : head_dim));
        if (!config.shares_kv(layer)) {
            TRY(weights.k_norm, loader.vector(name("attn_k_norm.weight"), whole ? keys : head_dim));
        }
    }
    if (config.qk_norm == model::QkNorm::centred_projection) {
        TRY(weights.q_norm_bias, loader.vector(name("attn_q_norm.bias"), queries));
        TRY(weights.k_norm_bias, loader.vector(name("attn_k_norm.bias"), keys));
    }
    return base::Ok{};
}

// Of queries, keys and values.
base::Status load_biases(WeightLoader& loader, const model::ModelConfig& config, std::int32_t layer,
                         AttentionWeights& weights) {
    const auto name = [layer](const char* what) { return layer_tensor(layer, what); };
    const std::vector<std::int64_t> sizes = qkv_rows(config, layer);
    if (config.fused_qkv) {
        TRY(auto parts, loader.split_vectors(name("attn_qkv.bias"), sizes));
        weights.q_bias = std::move(parts[0]);
        weights.k_bias = std::move(parts[1]);
        weights.v_bias = std::move(parts[2]);
        return base::Ok{};
    }
    TRY(weights.q_bias, loader.vector(name("attn_q.bias"), sizes[0]));
    TRY(weights.k_bias, loader.vector(name("attn_k.bias"), sizes[1]));
    TRY(weights.v_bias, loader.vector(name("attn_v.bias"), sizes[2]));
    return base::Ok{};
}

}  // namespace

base::Result<std::int64_t> AttentionWeights::bytes(const WeightLoader& loader,
                                                   const model::ModelConfig& config,
                                                   std::int32_t layer) {
    TRY(std::int64_t sum, tensors_bytes(loader, layer, whole_tensors(config, layer)));
    if (config.fused_qkv) {
        TRY(const std::int64_t fused,
            loader.split_bytes(layer_tensor(layer, "attn_qkv.weight"), qkv_rows(config, layer)));
        sum += fused;
        for (const std::int64_t rows : qkv_rows(config, layer))
            sum += config.qkv_bias ? loader.vector_bytes(rows) : 0;
    }
    return sum;
}

base::Result<AttentionWeights> AttentionWeights::load(WeightLoader& loader,
                                                      const model::ModelConfig& config,
                                                      std::int32_t layer) {
    const auto name = [layer](const char* what) { return layer_tensor(layer, what); };
    const std::int64_t hidden = config.hidden;
    const std::int64_t queries = q_width(config, layer);
    AttentionWeights weights;
    if (config.has_attention_norm(layer)) {
        TRY(weights.norm, loader.vector(name("attn_norm.weight"), hidden));
    }
    if (config.norm_bias) {
        TRY(weights.norm_bias, loader.vector(name("attn_norm.bias"), hidden));
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
    TRY(weights.sum_norm, SumNorm::load(loader, config, layer, kSumNorm));
    if (config.normed_twice) {
        weights.former_norm = std::move(weights.sum_norm);
        TRY(weights.sum_norm, SumNorm::load(loader, config, layer, kSecondSumNorm));
    }
    if (config.qkv_bias) TRY_VOID(load_biases(loader, config, layer, weights));
    TRY_VOID(load_qk_norms(loader, config, layer, weights));
    return weights;
}

void AttentionRunner::prepare_heads(Device& device, const model::ModelConfig& config,
                                    const AttentionWeights& weights, std::int32_t layer,
                                    const LayerRows& rows) {
    const bool of_heads = config.qk_norm == model::QkNorm::heads;
    if (config.qk_norm == model::QkNorm::projection) {
        device.rms_norm(
            {*q_, *weights.q_norm, *q_, rows.rows, q_width(config, layer), config.norm_epsilon});
        device.rms_norm(
            {*k_, *weights.k_norm, *k_, rows.rows, kv_width(config, layer), config.norm_epsilon});
    }
    if (config.qk_norm == model::QkNorm::centred) {
        norm_each_head(device, config, layer, *weights.q_norm, config.n_heads, rows.rows, *q_);
        norm_each_head(device, config, layer, *weights.k_norm, config.kv_heads_of(layer), rows.rows,
                       *k_);
    }
    const bool all_heads = config.qk_norm == model::QkNorm::centred_projection;
    if (all_heads) {
        norm_all_heads(device, config, *weights.q_bias, *weights.q_norm, rows.rows, *q_);
        norm_all_heads(device, config, *weights.k_bias, *weights.k_norm, rows.rows, *k_);
    }
    const Buffer* q_bias = all_heads ? weights.q_norm_bias.get() : weights.q_bias.get();
    const Buffer* k_bias = all_heads ? weights.k_norm_bias.get() : weights.k_bias.get();
    const bool rotates = config.rotates(layer);
    // A norm without weights after rope, as Llama 4 has it, is the same before it.
    const bool unweighted = config.qk_norm == model::QkNorm::unweighted && rotates;
    const Buffer* q_norm = of_heads ? weights.q_norm.get() : (unweighted ? ones_.get() : nullptr);
    const Buffer* k_norm = of_heads ? weights.k_norm.get() : (unweighted ? ones_.get() : nullptr);
    const bool has_temperature = config.has_temperature(layer);
    const std::int32_t kv_heads = config.kv_heads_of(layer);
    std::vector<ops::ProjectedHeads> heads = {
        {*q_, config.n_heads, q_bias, q_norm, rotates || has_temperature}};
    if (!config.shares_kv(layer)) {
        const Buffer* v_norm = config.value_norm ? ones_.get() : nullptr;
        heads.push_back({*k_, kv_heads, k_bias, k_norm, rotates});
        heads.push_back({*v_, kv_heads, weights.v_bias.get(), v_norm, false});
    }
    const std::int32_t head_dim = config.head_dim_of(layer);
    device.rope({heads, rows.angles, rows.rows, head_dim,
                 has_temperature ? head_dim : config.rope_dim_of(layer), config.rope_pairs,
                 config.norm_epsilon});
}

base::Status AttentionRunner::make_constants(Device& device, const model::ModelConfig& config) {
    const bool has_unweighted = config.value_norm || config.qk_norm == model::QkNorm::unweighted;
    if (has_unweighted && ones_ == nullptr) {
        const auto largest = base::size_of(config.largest_head_dim());
        TRY(ones_, filled_buffer(device, std::vector<float>(largest, 1.0F)));
    }
    if (config.alibi && slopes_ == nullptr) {
        TRY(slopes_, filled_buffer(device, alibi_slopes(config.n_heads)));
    }
    return base::Ok{};
}

base::Status AttentionRunner::run(Device& device, const model::ModelConfig& config,
                                  const AttentionWeights& weights, std::int32_t layer,
                                  const LayerRows& rows, BlockRows& shared) {
    TRY_VOID(make_room(device, q_, rows.rows * q_width(config, layer)));
    TRY_VOID(make_room(device, attended_, rows.rows * q_width(config, layer)));
    TRY_VOID(make_constants(device, config));
    TRY_VOID(shared.normed.run(device, config, rows, weights.norm.get(), weights.norm_bias.get()));
    // Keys that are values, too, are computed twice: that is little of a layer, and a copy of them
    // would have to be gathered from all of a group's devices.
    if (config.shares_kv(layer)) {
        const ops::Projection q[] = {{*weights.q, *q_}};
        device.matmul({shared.normed.values(), rows.rows, q});
    } else {
        TRY_VOID(make_room(device, k_, rows.rows * kv_width(config, layer)));
        TRY_VOID(make_room(device, v_, rows.rows * kv_width(config, layer)));
        const Matrix& values = weights.v == nullptr ? *weights.k : *weights.v;
        const ops::Projection qkv[] = {{*weights.q, *q_}, {*weights.k, *k_}, {values, *v_}};
        device.matmul({shared.normed.values(), rows.rows, qkv});
    }
    prepare_heads(device, config, weights, layer, rows);
    // Every row's keys are in place before any row attends to them.
    const ops::KvHeads heads{config.kv_heads_of(layer), config.head_dim_of(layer)};
    if (!config.shares_kv(layer)) device.kv_store({rows.kv, *k_, *v_, rows.sequences, heads});
    device.attention({rows.kv, *q_, *attended_, config.n_heads, config.window_of(layer),
                      rows.sequences, config.attention_scale, config.attention_softcap,
                      weights.sinks.get(), heads, config.chunked_attention, config.encoder,
                      slopes_.get()});
    TRY_VOID(shared.added.run(device, config, *weights.output, *attended_,
                              weights.output_norm.get(), rows, weights.output_bias.get(),
                              &weights.former_norm));
    weights.sum_norm.run(device, config, rows.hidden, rows.rows);
    return base::Ok{};
}

}  // namespace helix::engine
