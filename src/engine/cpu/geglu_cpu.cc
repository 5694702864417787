#include "engine/ops/geglu.h"

#include "engine/cpu/cpu_device.h"
#include "engine/cpu/cpu_memory.h"

namespace helix::engine {

void CpuDevice::geglu(const ops::Geglu& op) {
    float* gate = data_of(op.gate);
    const float* up = data_of(op.up);
    const auto kernel = op.exact ? kernels_.exact_geglu : kernels_.geglu;
    pool_.run(op.rows, [&](std::int64_t row, int) {
        float* to = gate + row * op.width;
        kernel(to, up + row * op.width, op.width, to);
    });
}

}  // namespace helix::engine
