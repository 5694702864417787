#include "engine/kernels/kernels_includes.h"

namespace helix::engine::ops {
namespace portable {
namespace {
#include "engine/kernels/simd_portable.h"

#include "engine/kernels/op_variants.h"
}  // namespace
}  // namespace portable

const Kernels& portable_kernels() {
    static const Kernels kTable = portable::make_table(Isa::portable);
    return kTable;
}

}  // namespace helix::engine::ops
