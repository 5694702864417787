#include "engine/ops/add_bias.h"

#include <algorithm>

#include "engine/cpu/cpu_device.h"
#include "engine/cpu/cpu_memory.h"

namespace helix::engine {
namespace {

// The expert that a visit is to: the last whose first visit is not behind it.
std::int64_t expert_of(const CpuRouting& routing, std::int64_t visit) {
    const auto& first = routing.first_visit;
    return std::upper_bound(first.begin(), first.end(), visit) - first.begin() - 1;
}

}  // namespace

void CpuDevice::add_bias(const ops::AddBias& op) {
    const auto* routing = static_cast<const CpuRouting*>(op.routing);
    float* x = data_of(op.x);
    pool_.run(op.rows, [&](std::int64_t row, int) {
        const std::int64_t of = routing == nullptr ? 0 : expert_of(*routing, row);
        const float* bias = data_of(op.bias) + of * op.width;
        float* to = x + row * op.width;
        for (std::int64_t i = 0; i < op.width; ++i) to[i] += bias[i];
    });
}

}  // namespace helix::engine
