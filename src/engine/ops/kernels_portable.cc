#include "engine/ops/kernels_includes.h"

namespace helix::engine::ops {
namespace portable {
namespace {
#include "engine/ops/simd_portable.h"

#include "engine/ops/op_variants.h"
}  // namespace
}  // namespace portable

const Kernels& portable_kernels() {
    static const Kernels kTable = portable::make_table(Isa::portable);
    return kTable;
}

}  // namespace helix::engine::ops
