#include "engine/ops/clamped_swiglu.h"

#include "engine/cpu/cpu_device.h"
#include "engine/cpu/cpu_memory.h"

namespace helix::engine {

void CpuDevice::clamped_swiglu(const ops::ClampedSwiglu& op) {
    float* gate = data_of(op.gate);
    const float* up = data_of(op.up);
    pool_.run(op.rows, [&](std::int64_t row, int) {
        float* to = gate + row * op.width;
        kernels_.clamped_swiglu(to, up + row * op.width, op.width, to);
    });
}

}  // namespace helix::engine
