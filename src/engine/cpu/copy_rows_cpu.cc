#include "engine/ops/copy_rows.h"

#include <algorithm>

#include "engine/cpu/cpu_device.h"
#include "engine/cpu/cpu_memory.h"

namespace helix::engine {

void CpuDevice::copy_rows(const ops::CopyRows& op) {
    for (const ops::RowRange& range : op.ranges) {
        std::copy_n(data_of(op.from) + range.from * op.width, range.count * op.width,
                    data_of(op.to) + range.to * op.width);
    }
}

}  // namespace helix::engine
