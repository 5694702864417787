#pragma once

// What the kernels use, included before any target region: functions from these headers must be
// compiled for the machine that everything else is compiled for.
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "engine/kernels/decoded_panel.h"
#include "engine/kernels/kernels.h"
#include "engine/kernels/packed_matrix.h"
#include "engine/ops/kv_layout.h"
#include "engine/ops/sums.h"
#include "model/quant/fp8.h"
#include "model/quant/half.h"
#include "model/quant/int4.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// Of what a kernel does to a register. Under sanitizers it stays a function: every check at every
// place where it is used takes minutes to compile.
#ifdef HELIX_SANITIZED
#define HELIX_INLINE [[gnu::noinline]] inline
#else
#define HELIX_INLINE [[gnu::always_inline]] inline
#endif

namespace helix::engine::ops {

using model::quant::bfloat_to_float;
using model::quant::float_to_half;
using model::quant::fp8_half;
using model::quant::half_to_float;

const Kernels& portable_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
const Kernels& amx_kernels();

}  // namespace helix::engine::ops
