#include "engine/cpu/rope_cpu.h"

#include "base/index.h"
#include "engine/cpu/cpu_device.h"
#include "engine/cpu/cpu_memory.h"

namespace helix::engine::ops {

void rope_row(std::span<const float> table, model::RopePairs pairs, int n_heads, int head_dim,
              float* x) {
    const std::size_t n = table.size() / 2;
    const bool adjacent = pairs == model::RopePairs::adjacent;
    const std::size_t step = adjacent ? 2 : 1;
    const std::size_t apart = adjacent ? 1 : n;
    for (int head = 0; head < n_heads; ++head, x += head_dim) {
        for (std::size_t i = 0; i < n; ++i) {
            const float cosine = table[2 * i];
            const float sine = table[2 * i + 1];
            const float a = x[i * step];
            const float b = x[i * step + apart];
            x[i * step] = a * cosine - b * sine;
            x[i * step + apart] = a * sine + b * cosine;
        }
    }
}

}  // namespace helix::engine::ops

namespace helix::engine {
namespace {

// A rank's heads [first, first + count) of a row: bias, norm and rotation.
void prepare_heads(const ops::Kernels& kernels, const ops::Rope& op, const ops::ProjectedHeads& of,
                   int first, int count, std::span<const float> angles, float* x) {
    if (of.bias != nullptr) {
        const std::int64_t width = std::int64_t{count} * op.head_dim;
        const float* bias = data_of(*of.bias) + std::int64_t{first} * op.head_dim;
        for (std::int64_t i = 0; i < width; ++i) x[i] += bias[i];
    }
    if (of.norm != nullptr) {
        const float* weight = data_of(*of.norm);
        float* head = x;
        for (int h = 0; h < count; ++h, head += op.head_dim)
            kernels.rms_norm(head, weight, op.head_dim, op.epsilon, head);
    }
    if (of.rotate) ops::rope_row(angles, op.pairs, count, op.head_dim, x);
}

}  // namespace

// Each rank does its own heads.
void CpuDevice::rope(const ops::Rope& op) {
    const int ranks = pool_.ranks();
    const float* angles = data_of(op.angles);
    pool_.run_ranks(op.rows, [&](int rank, std::int64_t row, int) {
        const std::span<const float> of_row(angles + row * op.rope_dim, base::size_of(op.rope_dim));
        for (const ops::ProjectedHeads& heads : op.heads) {
            const int count = heads.n_heads / ranks;
            const std::int64_t at =
                (row * heads.n_heads + std::int64_t{rank} * count) * op.head_dim;
            prepare_heads(kernels_, op, heads, rank * count, count, of_row, data_of(heads.x) + at);
        }
    });
}

}  // namespace helix::engine
