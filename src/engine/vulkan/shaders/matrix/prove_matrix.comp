#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#include "common.glsl"

// Tries matrix cores as matmul_matrix.glsl uses them. Case i has 16 outputs of 32 bytes from x[288i] on, then 16 rows of as
// many, a scale of each output and one of each row; its results are y[256i .. 256i + 255]: of each row and output the
// products' sum, times both scales.
layout(local_size_x = 32) in;
layout(push_constant, scalar) uniform Push {
    Words x, y;
    uint count;
};

const uint kQuads = 3;  // of 32 bytes in shared memory
shared uvec4 outputs[16 * kQuads];
shared uvec4 rows[16 * kQuads];
shared float output_scales[16];
shared float row_scales[16];
shared float results[256];

uvec4 quad_at(uint word) {
    return uvec4(x.v[word], x.v[word + 1u], x.v[word + 2u], x.v[word + 3u]);
}

void main() {
    uint lane = gl_LocalInvocationIndex;
    for (uint i = gl_WorkGroupID.x; i < count; i += gl_NumWorkGroups.x) {
        uint first = 288u * i;
        barrier();
        outputs[lane / 2u * kQuads + lane % 2u] = quad_at(first + 4u * lane);
        rows[lane / 2u * kQuads + lane % 2u] = quad_at(first + 128u + 4u * lane);
        if (lane < 16u) {
            output_scales[lane] = uintBitsToFloat(x.v[first + 256u + lane]);
            row_scales[lane] = uintBitsToFloat(x.v[first + 272u + lane]);
        }
        barrier();
        coopmat<int8_t, gl_ScopeSubgroup, 16, 32, gl_MatrixUseA> a;
        coopmat<int8_t, gl_ScopeSubgroup, 32, 16, gl_MatrixUseB> b;
        coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> of_outputs;
        coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> of_rows;
        coopMatLoad(a, outputs, 0u, kQuads, gl_CooperativeMatrixLayoutRowMajor);
        coopMatLoad(b, rows, 0u, kQuads, gl_CooperativeMatrixLayoutColumnMajor);
        coopMatLoad(of_outputs, output_scales, 0u, 0u, gl_CooperativeMatrixLayoutColumnMajor);
        coopMatLoad(of_rows, row_scales, 0u, 0u, gl_CooperativeMatrixLayoutRowMajor);
        coopmat<int, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> exact =
            coopmat<int, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0);
        exact = coopMatMulAdd(a, b, exact);
        coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> sums =
            coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(exact);
        for (uint e = 0u; e < sums.length(); ++e) {
            precise float scale = of_outputs[e] * of_rows[e];
            sums[e] = fma_exact(sums[e], scale, 0.0);
        }
        coopMatStore(sums, results, 0u, 16u, gl_CooperativeMatrixLayoutColumnMajor);
        barrier();
        for (uint k = lane; k < 256u; k += 32u) y.v[256u * i + k] = floatBitsToUint(results[k]);
    }
}
