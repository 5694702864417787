#include "engine/kernels/kernels_includes.h"

#if defined(__x86_64__)

namespace helix::engine::ops {
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
namespace avx2 {
namespace {
#include "engine/kernels/simd_avx2.h"

#include "engine/kernels/op_variants.h"
}  // namespace
}  // namespace avx2
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const Kernels& avx2_kernels() {
    static const Kernels kTable = avx2::make_table(Isa::avx2);
    return kTable;
}

}  // namespace helix::engine::ops

#endif
