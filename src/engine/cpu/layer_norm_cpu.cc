#include "engine/ops/layer_norm.h"

#include "engine/cpu/cpu_device.h"
#include "engine/cpu/cpu_memory.h"

namespace helix::engine {

void CpuDevice::layer_norm(const ops::LayerNorm& op) {
    const float* x = data_of(op.x);
    const float* weight = data_of(op.weight);
    float* y = data_of(op.y);
    pool_.run(op.rows, [&](std::int64_t row, int) {
        const std::int64_t at = row * op.width;
        const float* of_row = weight + row % op.n_weights * op.width;
        kernels_.layer_norm(x + at, of_row, op.width, op.epsilon, y + at);
    });
}

}  // namespace helix::engine
