#include "engine/ops/scale_rows.h"

#include "engine/cpu/cpu_device.h"
#include "engine/cpu/cpu_memory.h"

namespace helix::engine {

void CpuDevice::scale_rows(const ops::ScaleRows& op) {
    float* x = data_of(op.x);
    pool_.run(op.rows, [&](std::int64_t row, int) {
        float* to = x + row * op.width;
        kernels_.scale_row(to, op.width, op.factor, op.cap, to);
    });
}

}  // namespace helix::engine
