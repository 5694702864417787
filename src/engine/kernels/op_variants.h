// The body of kernels_<isa>.cc: every kernel, in the namespace of that variant, and its table. The
// including file has included kernels_includes.h and opened the namespace and, where needed, a
// target region.

#include "engine/kernels/op_common.h"

#include "engine/kernels/op_quantised_formats.h"

#include "engine/kernels/op_matmul_kernel.h"

#include "engine/kernels/op_elementwise_kernel.h"

#include "engine/kernels/op_logits_kernel.h"

#include "engine/kernels/op_attention_kernel.h"

Kernels make_table(Isa isa) {
    Kernels k{};
    k.isa = isa;
    k.matmul_f32 = float_matmul<F32>;
    k.matmul_f16 = float_matmul<F16>;
    k.matmul_bf16 = float_matmul<Bf16>;
    k.matmul_q8_0 = quantised_matmul<Q8_0>;
    k.matmul_q4_0 = quantised_matmul<Q4_0>;
    k.matmul_q4_k = quantised_matmul<Q4_K>;
    k.matmul_q6_k = quantised_matmul<Q6_K>;
    k.matmul_q4_1 = quantised_matmul<Q4_1>;
    k.matmul_q5_0 = quantised_matmul<Q5_0>;
    k.matmul_q5_1 = quantised_matmul<Q5_1>;
    k.matmul_q2_k = quantised_matmul<Q2_K>;
    k.matmul_q3_k = quantised_matmul<Q3_K>;
    k.matmul_q5_k = quantised_matmul<Q5_K>;
    k.matmul_iq4_nl = quantised_matmul<Iq4_Nl>;
    k.matmul_iq4_xs = quantised_matmul<Iq4_Xs>;
    k.matmul_mxfp4 = quantised_matmul<Mxfp4>;
    k.matmul_fp8 = float_matmul<Fp8>;
    k.matmul_int4 = quantised_matmul<Int4>;
    k.matmul_codes = quantised_matmul<Codes<ScaleKind::one>>;
    k.matmul_half_codes = quantised_matmul<Codes<ScaleKind::halves>>;
    k.quantise_row = quantise_row;
    k.rms_norm = rms_norm;
    k.swiglu = swiglu;
    k.layer_norm = layer_norm;
    k.geglu = geglu;
    k.exact_geglu = exact_geglu;
    k.reglu = reglu;
    k.gelu = gelu;
    k.scale_row = scale_row;
    k.clamped_swiglu = clamped_swiglu;
    k.exp_row = exp_row;
    k.sigmoid_row = sigmoid_row;
    k.logit_tops = logit_tops;
    k.weight_sums = weight_sums;
    k.to_half = to_half;
    k.quantise_kv = quantise_kv;
    k.attention_f16 = attention<KvF16>;
    k.attention_f32 = attention<KvF32>;
    k.attention_bf16 = attention<KvBf16>;
    k.attention_q8 = attention<KvQ8>;
    return k;
}
