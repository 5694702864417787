#include "engine/ops/copy_rows.h"

#include <algorithm>

#include "engine/cpu/cpu_device.h"
#include "engine/cpu/cpu_memory.h"

namespace helix::engine {
namespace {

constexpr std::int64_t kCopiedFloats = 1 << 18;  // by one thread at a time

}  // namespace

void CpuDevice::copy_rows(const ops::CopyRows& op) {
    for (const ops::RowRange& range : op.ranges) {
        const float* from = data_of(op.from) + range.from * op.width;
        float* to = data_of(op.to) + range.to * op.width;
        pool_.run_pieces(range.count * op.width, kCopiedFloats,
                         [&](std::int64_t begin, std::int64_t end) {
                             std::copy(from + begin, from + end, to + begin);
                         });
    }
}

}  // namespace helix::engine
