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

void FeedForwardRunner::run(const Device& device, const model::ModelConfig& config,
                            const FeedForwardWeights& weights, const LayerRows& rows,
                            NormedRows& normed) {
    const std::int64_t ffn = config.ffn;
    make_room(gate_, rows.rows * ffn);
    make_room(up_, rows.rows * ffn);
    normed.run(device, rows, weights.norm, config.norm_epsilon);
    const ops::MatmulJob gate_up[] = {{&weights.gate, {gate_.data(), ffn, false}},
                                      {&weights.up, {up_.data(), ffn, false}}};
    ops::matmul(device.kernels, device.pool, normed.rows(), gate_up);
    device.pool.run(rows.rows, [&](std::int64_t row, int) {
        float* gate = gate_.data() + row * ffn;
        device.kernels.swiglu(gate, up_.data() + row * ffn, ffn, gate);
    });
    matmul_rows_.set(gate_.data(), rows.rows, ffn);
    const ops::MatmulJob down[] = {{&weights.down, {rows.hidden.data(), config.hidden, true}}};
    ops::matmul(device.kernels, device.pool, matmul_rows_, down);
}

}  // namespace helix::engine
