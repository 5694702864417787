#include "engine/arch/blocks.h"

namespace helix::engine {

std::vector<std::string> FeedForwardWeights::tensors() {
    return {"ffn_norm.weight", "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight"};
}

base::Result<FeedForwardWeights> FeedForwardWeights::load(WeightLoader& loader,
                                                          const model::ModelConfig& config,
                                                          std::int32_t layer) {
    const auto name = [layer](const char* what) { return layer_tensor(layer, what); };
    FeedForwardWeights weights;
    TRY(weights.norm, loader.vector(name("ffn_norm.weight"), config.hidden));
    TRY(weights.gate, loader.matrix(name("ffn_gate.weight"), config.ffn, config.hidden));
    TRY(weights.up, loader.matrix(name("ffn_up.weight"), config.ffn, config.hidden));
    TRY(weights.down, loader.matrix(name("ffn_down.weight"), config.hidden, config.ffn));
    return weights;
}

base::Status FeedForwardRunner::run(Device& device, const model::ModelConfig& config,
                                    const FeedForwardWeights& weights, const LayerRows& rows,
                                    NormedRows& normed) {
    const std::int64_t ffn = config.ffn;
    TRY_VOID(make_room(device, gate_, rows.rows * ffn));
    TRY_VOID(make_room(device, up_, rows.rows * ffn));
    TRY_VOID(normed.run(device, rows, *weights.norm, config.norm_epsilon));
    const ops::Projection gate_up[] = {{*weights.gate, *gate_}, {*weights.up, *up_}};
    device.matmul({normed.values(), rows.rows, gate_up});
    device.swiglu({*gate_, *up_, rows.rows, ffn});
    const ops::Projection down[] = {{*weights.down, rows.hidden, true}};
    device.matmul({*gate_, rows.rows, down});
    return base::Ok{};
}

}  // namespace helix::engine
