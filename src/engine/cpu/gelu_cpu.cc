#include "engine/ops/gelu.h"

#include "engine/cpu/cpu_device.h"
#include "engine/cpu/cpu_memory.h"

namespace helix::engine {

void CpuDevice::gelu(const ops::Gelu& op) {
    float* x = data_of(op.x);
    pool_.run(op.rows, [&](std::int64_t row, int) {
        float* at = x + row * op.width;
        kernels_.gelu(at, op.width, at);
    });
}

}  // namespace helix::engine
