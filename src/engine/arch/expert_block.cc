#include "engine/arch/blocks.h"

namespace helix::engine {

std::vector<std::string> ExpertWeights::tensors() {
    return {"ffn_norm.weight", "ffn_gate_inp.weight", "ffn_gate_exps.weight", "ffn_up_exps.weight",
            "ffn_down_exps.weight"};
}

base::Result<ExpertWeights> ExpertWeights::load(WeightLoader& loader,
                                                const model::ModelConfig& config,
                                                std::int32_t layer) {
    const auto name = [layer](const char* what) { return layer_tensor(layer, what); };
    const std::int64_t n = config.n_experts;
    const std::int64_t hidden = config.hidden;
    ExpertWeights weights;
    TRY(weights.norm, loader.vector(name("ffn_norm.weight"), hidden));
    TRY(weights.router, loader.matrix(name("ffn_gate_inp.weight"), n, hidden));
    TRY(weights.gate, loader.matrices(name("ffn_gate_exps.weight"), n, config.ffn, hidden));
    TRY(weights.up, loader.matrices(name("ffn_up_exps.weight"), n, config.ffn, hidden));
    TRY(weights.down, loader.matrices(name("ffn_down_exps.weight"), n, hidden, config.ffn));
    return weights;
}

base::Status ExpertRunner::run(Device& device, const model::ModelConfig& config,
                               const ExpertWeights& weights, const LayerRows& rows,
                               BlockRows& shared) {
    const std::int64_t hidden = config.hidden;
    const std::int64_t ffn = config.ffn;
    const std::int64_t visits = rows.rows * config.n_experts_used;
    if (routing_ == nullptr) routing_ = device.make_routing();
    TRY_VOID(make_room(device, scores_, rows.rows * config.n_experts));
    TRY_VOID(make_room(device, inputs_, visits * hidden));
    TRY_VOID(make_room(device, outputs_, visits * hidden));
    TRY_VOID(make_room(device, gate_, visits * ffn));
    TRY_VOID(make_room(device, up_, visits * ffn));
    TRY_VOID(shared.normed.run(device, config, rows, weights.norm.get()));
    const Buffer& normed = shared.normed.values();
    const ops::Projection router[] = {{*weights.router, *scores_}};
    device.matmul({normed, rows.rows, router});
    device.route_rows({*scores_, rows.rows, config.n_experts, config.n_experts_used,
                       config.normalise_expert_weights, *routing_, config.residual_scale});

    device.gather_visits({*routing_, normed, *inputs_, hidden});
    const ops::Projection gate_up[] = {{*weights.gate, *gate_}, {*weights.up, *up_}};
    device.expert_matmul({*routing_, *inputs_, gate_up});
    device.swiglu({*gate_, *up_, visits, ffn});
    const ops::Projection down[] = {{*weights.down, *outputs_}};
    device.expert_matmul({*routing_, *gate_, down});
    device.add_visits({*routing_, *outputs_, rows.hidden, hidden});
    return base::Ok{};
}

}  // namespace helix::engine
