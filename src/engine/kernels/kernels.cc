#include "engine/kernels/kernels.h"

#include "base/check.h"
#include "engine/kernels/amx_support.h"
#include "engine/kernels/kernels_includes.h"

namespace helix::engine::ops {

const char* to_string(Isa isa) {
    switch (isa) {
        case Isa::portable:
            return "portable";
        case Isa::avx2:
            return "avx2";
        case Isa::avx512:
            return "avx512";
        case Isa::amx:
            return "amx";
    }
    return "?";
}

bool supported(Isa isa) {
    if (isa == Isa::portable) return true;
#if defined(__x86_64__)
    const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
    if (isa == Isa::avx2) return avx2;
    if (isa == Isa::amx) return supported(Isa::avx512) && amx_works();
    return avx2 && __builtin_cpu_supports("avx512f") != 0 &&
           __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
           __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512vnni") != 0;
#else
    return false;
#endif
}

Isa best_isa() {
    if (supported(Isa::amx)) return Isa::amx;
    if (supported(Isa::avx512)) return Isa::avx512;
    return supported(Isa::avx2) ? Isa::avx2 : Isa::portable;
}

const Kernels& kernels(Isa isa) {
    CHECK(supported(isa));
#if defined(__x86_64__)
    if (isa == Isa::amx) return amx_kernels();
    if (isa == Isa::avx512) return avx512_kernels();
    if (isa == Isa::avx2) return avx2_kernels();
#endif
    return portable_kernels();
}

MatmulKernel Kernels::matmul(model::TensorType type) const {
    switch (type) {
        case model::TensorType::f32:
            return matmul_f32;
        case model::TensorType::f16:
            return matmul_f16;
        case model::TensorType::bf16:
            return matmul_bf16;
        case model::TensorType::q8_0:
            return matmul_q8_0;
        case model::TensorType::q4_0:
            return matmul_q4_0;
        case model::TensorType::q4_k:
            return matmul_q4_k;
        case model::TensorType::q6_k:
            return matmul_q6_k;
        case model::TensorType::q4_1:
            return matmul_q4_1;
        case model::TensorType::q5_0:
            return matmul_q5_0;
        case model::TensorType::q5_1:
            return matmul_q5_1;
        case model::TensorType::q2_k:
            return matmul_q2_k;
        case model::TensorType::q3_k:
            return matmul_q3_k;
        case model::TensorType::q5_k:
            return matmul_q5_k;
        case model::TensorType::iq4_nl:
            return matmul_iq4_nl;
        case model::TensorType::iq4_xs:
            return matmul_iq4_xs;
        case model::TensorType::mxfp4:
            return matmul_mxfp4;
        case model::TensorType::fp8:
            return matmul_fp8;
        case model::TensorType::int4:
            return matmul_int4;
        case model::TensorType::iq2_xs:
        case model::TensorType::iq2_s:
        case model::TensorType::iq1_m:
        case model::TensorType::nvfp4:
            return matmul_half_codes;
        case model::TensorType::iq3_xxs:
        case model::TensorType::iq3_s:
        case model::TensorType::iq2_xxs:
        case model::TensorType::iq1_s:
        case model::TensorType::tq1_0:
        case model::TensorType::tq2_0:
            return matmul_codes;
    }
    CHECK(false);
}

}  // namespace helix::engine::ops
