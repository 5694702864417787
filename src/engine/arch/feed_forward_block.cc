#include "engine/arch/blocks.h"

namespace helix::engine {
namespace {

constexpr const char* kFeedForwardSumNorm = "layer_output_norm";

// Of two blocks side by side both read what attention's norm makes.
bool has_norm(const model::ModelConfig& config) {
    return config.input_norms && !config.parallel_blocks;
}

}  // namespace

base::Result<std::int64_t> FeedForwardWeights::bytes(const WeightLoader& loader,
                                                     const model::ModelConfig& config,
                                                     std::int32_t layer) {
    std::vector<std::string> names{"ffn_down.weight"};
    if (!config.fused_gate_up) names.emplace_back("ffn_up.weight");
    if (!config.fused_gate_up && config.has_gate()) names.emplace_back("ffn_gate.weight");
    if (config.norm_bias) names.emplace_back("ffn_norm.bias");
    if (has_norm(config)) names.push_back(config.feed_forward_norm);
    if (config.output_norms) names.emplace_back("post_ffw_norm.weight");
    if (config.feed_forward_bias) names.insert(names.end(), {"ffn_up.bias", "ffn_down.bias"});
    if (config.down_bias) names.emplace_back("ffn_down.bias");
    for (std::string& name : SumNorm::tensors(config, kFeedForwardSumNorm))
        names.push_back(std::move(name));
    TRY(std::int64_t sum, tensors_bytes(loader, layer, names));
    if (config.fused_gate_up) {
        const std::int64_t rows[] = {config.dense_width(layer), config.dense_width(layer)};
        TRY(const std::int64_t fused,
            loader.split_bytes(layer_tensor(layer, "ffn_up.weight"), rows));
        sum += fused;
    }
    return sum;
}

base::Result<FeedForwardWeights> FeedForwardWeights::load(WeightLoader& loader,
                                                          const model::ModelConfig& config,
                                                          std::int32_t layer) {
    const auto name = [layer](const char* what) { return layer_tensor(layer, what); };
    const std::int64_t ffn = config.dense_width(layer);
    FeedForwardWeights weights;
    if (has_norm(config)) {
        TRY(weights.norm,
            loader.vector(layer_tensor(layer, config.feed_forward_norm), config.hidden));
    }
    if (config.norm_bias) {
        TRY(weights.norm_bias, loader.vector(name("ffn_norm.bias"), config.hidden));
    }
    if (config.fused_gate_up) {
        const std::int64_t rows[] = {ffn, ffn};
        TRY(auto parts, loader.split_matrices(name("ffn_up.weight"), 1, rows, config.hidden));
        weights.gate = std::move(parts[config.up_before_gate ? 1 : 0]);
        weights.up = std::move(parts[config.up_before_gate ? 0 : 1]);
    } else {
        if (config.has_gate()) {
            TRY(weights.gate, loader.matrix(name("ffn_gate.weight"), ffn, config.hidden));
        }
        TRY(weights.up, loader.matrix(name("ffn_up.weight"), ffn, config.hidden));
    }
    TRY(weights.down, loader.matrix(name("ffn_down.weight"), config.hidden, ffn));
    if (config.output_norms) {
        TRY(weights.output_norm, loader.vector(name("post_ffw_norm.weight"), config.hidden));
    }
    if (config.feed_forward_bias) {
        TRY(weights.up_bias, loader.vector(name("ffn_up.bias"), ffn));
        TRY(weights.down_bias, loader.vector(name("ffn_down.bias"), config.hidden));
    }
    if (config.down_bias) {
        TRY(weights.down_bias, loader.vector(name("ffn_down.bias"), config.hidden));
    }
    TRY(weights.sum_norm, SumNorm::load(loader, config, layer, kFeedForwardSumNorm));
    return weights;
}

base::Result<FeedForwardWeights> FeedForwardWeights::load_shared(WeightLoader& loader,
                                                                 const model::ModelConfig& config,
                                                                 std::int32_t layer) {
    const auto name = [layer](const char* what) { return layer_tensor(layer, what); };
    const std::int64_t ffn = config.shared_ffn;
    FeedForwardWeights weights;
    TRY(weights.gate, loader.matrix(name("ffn_gate_shexp.weight"), ffn, config.hidden));
    TRY(weights.up, loader.matrix(name("ffn_up_shexp.weight"), ffn, config.hidden));
    TRY(weights.down, loader.matrix(name("ffn_down_shexp.weight"), config.hidden, ffn));
    return weights;
}

base::Status FeedForwardRunner::run(Device& device, const model::ModelConfig& config,
                                    const FeedForwardWeights& weights, const LayerRows& rows,
                                    BlockRows& shared) {
    if (!config.parallel_blocks)
        TRY_VOID(
            shared.normed.run(device, config, rows, weights.norm.get(), weights.norm_bias.get()));
    return run_normed(device, config, weights, rows, shared);
}

base::Status FeedForwardRunner::make_gate(Device& device, const model::ModelConfig& config,
                                          const FeedForwardWeights& weights, const Buffer& normed,
                                          std::int64_t rows) {
    const std::int64_t ffn = weights.up->shape().rows;
    TRY_VOID(make_room(device, gate_, rows * ffn));
    if (weights.gate == nullptr) {
        const ops::Projection up[] = {{*weights.up, *gate_}};
        device.matmul({normed, rows, up});
        if (weights.up_bias != nullptr) device.add_bias({*gate_, *weights.up_bias, rows, ffn});
        gate_rows(device, config, *gate_, *gate_, rows, ffn);
        return base::Ok{};
    }
    TRY_VOID(make_room(device, up_, rows * ffn));
    const ops::Projection gate_up[] = {{*weights.gate, *gate_}, {*weights.up, *up_}};
    device.matmul({normed, rows, gate_up});
    gate_rows(device, config, *gate_, *up_, rows, ffn);
    return base::Ok{};
}

base::Status FeedForwardRunner::multiply(Device& device, const model::ModelConfig& config,
                                         const FeedForwardWeights& weights, const Buffer& normed,
                                         std::int64_t rows, Buffer& y) {
    TRY_VOID(make_gate(device, config, weights, normed, rows));
    const ops::Projection down[] = {{*weights.down, y}};
    device.matmul({*gate_, rows, down});
    return base::Ok{};
}

base::Status FeedForwardRunner::run_normed(Device& device, const model::ModelConfig& config,
                                           const FeedForwardWeights& weights, const LayerRows& rows,
                                           BlockRows& shared) {
    TRY_VOID(make_gate(device, config, weights, shared.normed.values(), rows.rows));
    TRY_VOID(shared.added.run(device, config, *weights.down, *gate_, weights.output_norm.get(),
                              rows, weights.down_bias.get()));
    weights.sum_norm.run(device, config, rows.hidden, rows.rows);
    return base::Ok{};
}

}  // namespace helix::engine
