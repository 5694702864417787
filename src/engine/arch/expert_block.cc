#include "engine/arch/blocks.h"

#include "base/check.h"

namespace helix::engine {
namespace {

constexpr const char* kExpertSumNorm = "layer_output_norm";

// The tensor of the norm of what experts read, where the model norms that.
std::string expert_norm(const model::ModelConfig& config) {
    return config.dense_beside_experts ? "pre_ffw_norm_2.weight" : config.feed_forward_norm;
}

}  // namespace

base::Result<std::int64_t> ExpertWeights::bytes(const WeightLoader& loader,
                                                const model::ModelConfig& config,
                                                std::int32_t layer) {
    std::vector<std::string> names{"ffn_gate_inp.weight", "ffn_down_exps.weight"};
    if (config.input_norms) names.push_back(expert_norm(config));
    std::int64_t fused = 0;
    if (config.fused_experts) {
        const std::int64_t rows[] = {config.ffn, config.ffn};
        TRY(fused, loader.split_bytes(layer_tensor(layer, "ffn_gate_up_exps.weight"), rows));
    } else {
        if (config.has_gate()) names.emplace_back("ffn_gate_exps.weight");
        names.emplace_back("ffn_up_exps.weight");
    }
    for (std::string& name : SumNorm::tensors(config, kExpertSumNorm))
        names.push_back(std::move(name));
    if (config.dense_beside_experts) names.emplace_back("ffn_down_exps.scale");
    if (config.selection_bias) names.emplace_back("exp_probs_b.bias");
    std::int64_t biases = 0;
    if (config.expert_biases) {
        names.emplace_back("ffn_gate_inp.bias");
        biases = loader.vector_bytes(std::int64_t{config.n_experts} *
                                     (2 * std::int64_t{config.ffn} + config.hidden));
    }
    if (config.shared_ffn > 0) {
        names.insert(names.end(),
                     {"ffn_gate_shexp.weight", "ffn_up_shexp.weight", "ffn_down_shexp.weight"});
    }
    std::int64_t gate = 0;
    if (config.shared_gate) {
        const std::int64_t rows[] = {1};
        TRY(gate, loader.split_bytes(layer_tensor(layer, "ffn_gate_inp_shexp.weight"), rows));
    }
    TRY(const std::int64_t sum, tensors_bytes(loader, layer, names));
    return sum + biases + fused + gate;
}

base::Result<ExpertWeights> ExpertWeights::load(WeightLoader& loader,
                                                const model::ModelConfig& config,
                                                std::int32_t layer) {
    const auto name = [layer](const char* what) { return layer_tensor(layer, what); };
    const std::int64_t n = config.n_experts;
    const std::int64_t hidden = config.hidden;
    ExpertWeights weights;
    if (config.input_norms) {
        TRY(weights.norm, loader.vector(layer_tensor(layer, expert_norm(config)), hidden));
    }
    TRY(weights.router, loader.matrix(name("ffn_gate_inp.weight"), n, hidden));
    if (config.selection_bias) {
        TRY(weights.selection_bias, loader.vector(name("exp_probs_b.bias"), n));
    }
    if (config.fused_experts) {
        const std::int64_t rows[] = {config.ffn, config.ffn};
        TRY(auto parts, loader.split_matrices(name("ffn_gate_up_exps.weight"), n, rows, hidden));
        weights.gate = std::move(parts[0]);
        weights.up = std::move(parts[1]);
    } else {
        if (config.has_gate()) {
            TRY(weights.gate, loader.matrices(name("ffn_gate_exps.weight"), n, config.ffn, hidden));
        }
        TRY(weights.up, loader.matrices(name("ffn_up_exps.weight"), n, config.ffn, hidden));
    }
    if (config.dense_beside_experts) {
        TRY(weights.factors, loader.vector(name("ffn_down_exps.scale"), n));
    }
    TRY(weights.down, loader.matrices(name("ffn_down_exps.weight"), n, hidden, config.ffn));
    if (config.expert_biases) {
        TRY(weights.router_bias, loader.vector(name("ffn_gate_inp.bias"), n));
        TRY(weights.gate_bias, loader.vector(name("ffn_gate_exps.bias"), n * config.ffn));
        TRY(weights.up_bias, loader.vector(name("ffn_up_exps.bias"), n * config.ffn));
        TRY(weights.down_bias, loader.vector(name("ffn_down_exps.bias"), n * hidden));
    }
    if (config.shared_ffn > 0) {
        TRY(weights.shared, FeedForwardWeights::load_shared(loader, config, layer));
    }
    if (config.shared_gate) {
        TRY(weights.shared_gate, loader.matrix(name("ffn_gate_inp_shexp.weight"), 1, hidden));
    }
    TRY(weights.sum_norm, SumNorm::load(loader, config, layer, kExpertSumNorm));
    return weights;
}

base::Status ExpertRunner::route(Device& device, const model::ModelConfig& config,
                                 const ExpertWeights& weights, const Buffer& normed,
                                 std::int64_t rows) {
    if (routing_ == nullptr) routing_ = device.make_routing();
    TRY_VOID(make_room(device, scores_, rows * config.n_experts));
    const ops::Projection router[] = {{*weights.router, *scores_}};
    device.matmul({normed, rows, router});
    if (weights.router_bias != nullptr)
        device.add_bias({*scores_, *weights.router_bias, rows, config.n_experts});
    device.route_rows({*scores_, rows, config.n_experts, config.n_experts_used,
                       config.normalise_expert_weights, *routing_,
                       config.expert_weight_scale * config.residual_scale,
                       config.gating == model::Gating::sigmoid, weights.selection_bias.get(),
                       weights.factors.get(), config.n_expert_groups, config.n_expert_groups_used});
    return base::Ok{};
}

// gate_ of all visits, which the last matrices get.
void ExpertRunner::make_gates(Device& device, const model::ModelConfig& config,
                              const ExpertWeights& weights, std::int64_t visits) {
    const std::int64_t ffn = config.ffn;
    if (weights.gate == nullptr) {
        const ops::Projection up[] = {{*weights.up, *gate_}};
        device.expert_matmul({*routing_, *inputs_, up});
        return gate_rows(device, config, *gate_, *gate_, visits, ffn);
    }
    const ops::Projection gate_up[] = {{*weights.gate, *gate_}, {*weights.up, *up_}};
    device.expert_matmul({*routing_, *inputs_, gate_up});
    if (weights.gate_bias != nullptr) {
        device.add_bias({*gate_, *weights.gate_bias, visits, ffn, routing_.get()});
        device.add_bias({*up_, *weights.up_bias, visits, ffn, routing_.get()});
    }
    gate_rows(device, config, *gate_, *up_, visits, ffn);
}

// The feed-forwards of all visits, from inputs_ to outputs_.
void ExpertRunner::visit(Device& device, const model::ModelConfig& config,
                         const ExpertWeights& weights, std::int64_t visits) {
    make_gates(device, config, weights, visits);
    const ops::Projection down[] = {{*weights.down, *outputs_}};
    device.expert_matmul({*routing_, *gate_, down});
    if (weights.down_bias != nullptr)
        device.add_bias({*outputs_, *weights.down_bias, visits, config.hidden, routing_.get()});
}

base::Status ExpertRunner::visit_rows(Device& device, const model::ModelConfig& config,
                                      const ExpertWeights& weights, const Buffer& routed,
                                      const Buffer& normed, std::int64_t rows, Buffer& y,
                                      bool replace) {
    const std::int64_t hidden = config.hidden;
    const std::int64_t ffn = config.ffn;
    const std::int64_t visits = rows * config.n_experts_used;
    TRY_VOID(make_room(device, inputs_, visits * hidden));
    TRY_VOID(make_room(device, outputs_, visits * hidden));
    TRY_VOID(make_room(device, gate_, visits * ffn));
    if (weights.gate != nullptr) TRY_VOID(make_room(device, up_, visits * ffn));
    TRY_VOID(route(device, config, weights, routed, rows));

    const bool before = config.weighted_expert_inputs;
    device.gather_visits({*routing_, normed, *inputs_, hidden, before});
    visit(device, config, weights, visits);
    device.add_visits({*routing_, *outputs_, y, hidden, replace, !before});
    return base::Ok{};
}

base::Status ExpertRunner::visit_shared(Device& device, const model::ModelConfig& config,
                                        const ExpertWeights& weights, const LayerRows& rows,
                                        BlockRows& shared) {
    if (weights.shared_gate == nullptr)
        return of_all_.run_normed(device, config, *weights.shared, rows, shared);
    const Buffer& normed = shared.normed.values();
    if (of_all_routing_ == nullptr) of_all_routing_ = device.make_routing();
    TRY_VOID(make_room(device, of_all_scores_, rows.rows));
    TRY_VOID(make_room(device, of_all_outputs_, rows.rows * config.hidden));
    const ops::Projection gate[] = {{*weights.shared_gate, *of_all_scores_}};
    device.matmul({normed, rows.rows, gate});
    device.route_rows(
        {*of_all_scores_, rows.rows, 1, 1, false, *of_all_routing_, config.residual_scale, true});
    TRY_VOID(
        of_all_.multiply(device, config, *weights.shared, normed, rows.rows, *of_all_outputs_));
    device.add_visits({*of_all_routing_, *of_all_outputs_, rows.hidden, config.hidden});
    return base::Ok{};
}

base::Status ExpertRunner::run(Device& device, const model::ModelConfig& config,
                               const ExpertWeights& weights, const LayerRows& rows,
                               BlockRows& shared) {
    TRY_VOID(shared.normed.run(device, config, rows, weights.norm.get()));
    const Buffer& normed = shared.normed.values();
    TRY_VOID(visit_rows(device, config, weights, normed, normed, rows.rows, rows.hidden, false));
    weights.sum_norm.run(device, config, rows.hidden, rows.rows);
    if (!weights.shared) return base::Ok{};
    // It reads what the router has read, which is not the residuals that have just changed.
    CHECK(&normed != &rows.hidden);
    return visit_shared(device, config, weights, rows, shared);
}

}  // namespace helix::engine
