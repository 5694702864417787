#include "engine/kernels/kernels_includes.h"

#if defined(__x86_64__)

namespace helix::engine::ops {
#if defined(__clang__)
#pragma clang attribute push(                                                               \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c"))), \
    apply_to = function)
#else
// g++ 12 takes the "undefined" registers of its own header for mistakes (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#endif
namespace avx512 {
namespace {
#include "engine/kernels/simd_avx512.h"

#include "engine/kernels/op_variants.h"
}  // namespace
}  // namespace avx512
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#pragma GCC diagnostic pop
#endif

const Kernels& avx512_kernels() {
    static const Kernels kTable = avx512::make_table(Isa::avx512);
    return kTable;
}

}  // namespace helix::engine::ops

#endif
