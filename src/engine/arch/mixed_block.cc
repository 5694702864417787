#include <cmath>

#include "engine/arch/blocks.h"

namespace helix::engine {

base::Result<std::int64_t> MixedWeights::bytes(const WeightLoader& loader,
                                               const model::ModelConfig& config,
                                               std::int32_t layer) {
    TRY(const std::int64_t dense, FeedForwardWeights::bytes(loader, config, layer));
    TRY(const std::int64_t experts, ExpertWeights::bytes(loader, config, layer));
    TRY(const std::int64_t norms,
        tensors_bytes(loader, layer,
                      {"post_ffw_norm_1.weight", "post_ffw_norm_2.weight", "ffn_gate_inp.scale"}));
    return dense + experts + norms;
}

base::Result<MixedWeights> MixedWeights::load(WeightLoader& loader,
                                              const model::ModelConfig& config,
                                              std::int32_t layer) {
    const auto vector = [&](const char* name, float factor) {
        return loader.vector(layer_tensor(layer, name), config.hidden, factor);
    };
    MixedWeights weights;
    TRY(weights.dense, FeedForwardWeights::load(loader, config, layer));
    TRY(weights.experts, ExpertWeights::load(loader, config, layer));
    TRY(weights.dense_norm, vector("post_ffw_norm_1.weight", 1.0F));
    TRY(weights.experts_norm, vector("post_ffw_norm_2.weight", 1.0F));
    const float unit = 1.0F / std::sqrt(static_cast<float>(config.hidden));
    TRY(weights.router_norm, vector("ffn_gate_inp.scale", unit));
    return weights;
}

base::Status MixedRunner::run(Device& device, const model::ModelConfig& config,
                              const MixedWeights& weights, const LayerRows& rows) {
    const std::int64_t n = rows.rows;
    const std::int64_t floats = n * config.hidden;
    for (auto* buffer : {&normed_, &routed_, &of_dense_, &of_experts_})
        TRY_VOID(make_room(device, *buffer, floats));
    const auto norm = [&](const Buffer& x, const std::unique_ptr<Buffer>& weight, Buffer& y) {
        norm_rows(device, config, x, *weight, y, n);
    };
    norm(rows.hidden, weights.dense.norm, *normed_);
    TRY_VOID(dense_.multiply(device, config, weights.dense, *normed_, n, *of_dense_));
    norm(*of_dense_, weights.dense_norm, *of_dense_);
    norm(rows.hidden, weights.router_norm, *routed_);
    norm(rows.hidden, weights.experts.norm, *normed_);
    TRY_VOID(experts_.visit_rows(device, config, weights.experts, *routed_, *normed_, n,
                                 *of_experts_, true));
    norm(*of_experts_, weights.experts_norm, *of_experts_);
    device.add_rows({*of_experts_, *of_dense_, n, config.hidden, 1.0F});
    norm(*of_dense_, weights.dense.output_norm, *of_dense_);
    device.add_rows({*of_dense_, rows.hidden, n, config.hidden, config.residual_scale});
    return base::Ok{};
}

}  // namespace helix::engine
