#include "engine/ops/reglu.h"

#include "engine/cpu/cpu_device.h"
#include "engine/cpu/cpu_memory.h"

namespace helix::engine {

void CpuDevice::reglu(const ops::Reglu& op) {
    float* gate = data_of(op.gate);
    const float* up = data_of(op.up);
    pool_.run(op.rows, [&](std::int64_t row, int) {
        float* to = gate + row * op.width;
        kernels_.reglu(to, up + row * op.width, op.width, to);
    });
}

}  // namespace helix::engine
