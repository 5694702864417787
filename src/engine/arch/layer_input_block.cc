#include "base/check.h"
#include "engine/arch/blocks.h"

namespace helix::engine {

base::Result<std::int64_t> LayerInputWeights::bytes(const WeightLoader& loader,
                                                    std::int32_t layer) {
    return tensors_bytes(loader, layer, {"inp_gate.weight", "proj.weight", "post_norm.weight"});
}

base::Result<LayerInputWeights> LayerInputWeights::load(WeightLoader& loader,
                                                        const model::ModelConfig& config,
                                                        std::int32_t layer) {
    const auto name = [layer](const char* what) { return layer_tensor(layer, what); };
    LayerInputWeights weights;
    TRY(weights.gate, loader.matrix(name("inp_gate.weight"), config.layer_input, config.hidden));
    TRY(weights.projection, loader.matrix(name("proj.weight"), config.hidden, config.layer_input));
    TRY(weights.norm, loader.vector(name("post_norm.weight"), config.hidden));
    return weights;
}

base::Status LayerInputRunner::run(Device& device, const model::ModelConfig& config,
                                   const LayerInputWeights& weights, const LayerRows& rows,
                                   BlockRows& shared) {
    CHECK(rows.layer_input != nullptr);
    const std::int64_t width = config.layer_input;
    TRY_VOID(make_room(device, gate_, rows.rows * width));
    const ops::Projection gate[] = {{*weights.gate, *gate_}};
    device.matmul({rows.hidden, rows.rows, gate});
    gate_rows(device, config, *gate_, *rows.layer_input, rows.rows, width);
    return shared.added.run(device, config, *weights.projection, *gate_, weights.norm.get(), rows);
}

}  // namespace helix::engine
