#include "engine/ops/add_rows.h"

#include "engine/cpu/cpu_device.h"
#include "engine/cpu/cpu_memory.h"

namespace helix::engine {

void CpuDevice::add_rows(const ops::AddRows& op) {
    const float* x = data_of(op.x);
    float* y = data_of(op.y);
    pool_.run(op.rows, [&](std::int64_t row, int) {
        const float* from = x + row * op.width;
        float* to = y + row * op.width;
        for (std::int64_t i = 0; i < op.width; ++i) to[i] += op.factor * from[i];
    });
}

}  // namespace helix::engine
