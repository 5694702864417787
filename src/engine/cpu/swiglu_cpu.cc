#include "engine/ops/swiglu.h"

#include "engine/cpu/cpu_device.h"
#include "engine/cpu/cpu_memory.h"

namespace helix::engine {
namespace {

// Multiplies the gate, of which the kernel makes something first, by up.
template <typename Op>
void gated(ThreadPool& pool, const Op& op,
           void (*kernel)(const float* gate, const float* up, std::int64_t n, float* y)) {
    float* gate = data_of(op.gate);
    const float* up = data_of(op.up);
    pool.run(op.rows, [&](std::int64_t row, int) {
        float* to = gate + row * op.width;
        kernel(to, up + row * op.width, op.width, to);
    });
}

}  // namespace

void CpuDevice::swiglu(const ops::Swiglu& op) {
    gated(pool_, op, kernels_.swiglu);
}

void CpuDevice::geglu(const ops::Geglu& op) {
    gated(pool_, op, op.exact ? kernels_.exact_geglu : kernels_.geglu);
}

void CpuDevice::reglu(const ops::Reglu& op) {
    gated(pool_, op, kernels_.reglu);
}

void CpuDevice::clamped_swiglu(const ops::ClampedSwiglu& op) {
    gated(pool_, op, kernels_.clamped_swiglu);
}

}  // namespace helix::engine
