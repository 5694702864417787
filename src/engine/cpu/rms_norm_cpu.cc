#include "engine/ops/rms_norm.h"

#include "engine/cpu/cpu_device.h"
#include "engine/cpu/cpu_memory.h"

namespace helix::engine {

void CpuDevice::rms_norm(const ops::RmsNorm& op) {
    const float* x = data_of(op.x);
    const float* weight = data_of(op.weight);
    float* y = data_of(op.y);
    pool_.run(op.rows, [&](std::int64_t row, int) {
        const std::int64_t at = row * op.width;
        kernels_.rms_norm(x + at, weight, op.width, op.epsilon, y + at);
    });
}

}  // namespace helix::engine
