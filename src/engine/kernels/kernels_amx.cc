#include "engine/kernels/kernels_includes.h"
#include "engine/kernels/tile_config.h"

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
namespace amx {
namespace {
#include "engine/kernels/simd_avx512.h"

#include "engine/kernels/op_common.h"

#include "engine/kernels/op_quantised_formats.h"

#include "engine/kernels/op_matmul_kernel.h"

#include "engine/kernels/tiles_amx.h"

#include "engine/kernels/op_tile_matmul_kernel.h"
}  // namespace
}  // namespace amx
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#pragma GCC diagnostic pop
#endif

const Kernels& amx_kernels() {
    static const Kernels kTable = amx::make_tile_table<amx::AmxTiles, avx512_kernels>(Isa::amx);
    return kTable;
}

}  // namespace helix::engine::ops

#endif
