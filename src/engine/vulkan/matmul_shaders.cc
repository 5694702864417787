#include "engine/vulkan/matmul_shaders.h"

#include "base/check.h"
#include "shaders/helix_engine.h"

namespace helix::engine {
namespace {

// Those of one type of matrix.
struct MatmulShaders {
    const Shader& plain;
    const Shader& dot;
    const Shader& tiled;
    const Shader& tiled_dot;
    const Shader* matrix = nullptr;
};

MatmulShaders matmul_shaders(model::TensorType type) {
    using namespace shaders;
    switch (type) {
        case model::TensorType::f32:
            return {matmul_f32, matmul_f32, matmul_f32_tiled, matmul_f32_tiled};
        case model::TensorType::f16:
            return {matmul_f16, matmul_f16, matmul_f16_tiled, matmul_f16_tiled};
        case model::TensorType::bf16:
            return {matmul_bf16, matmul_bf16, matmul_bf16_tiled, matmul_bf16_tiled};
        case model::TensorType::q8_0:
            return {matmul_q8_0, matmul_q8_0_dot, matmul_q8_0_tiled, matmul_q8_0_tiled_dot,
                    &matmul_q8_0_matrix};
        case model::TensorType::q4_0:
            return {matmul_q4_0, matmul_q4_0_dot, matmul_q4_0_tiled, matmul_q4_0_tiled_dot,
                    &matmul_q4_0_matrix};
        case model::TensorType::q4_1:
            return {matmul_q4_1, matmul_q4_1_dot, matmul_q4_1_tiled, matmul_q4_1_tiled_dot,
                    &matmul_q4_1_matrix};
        case model::TensorType::q5_0:
            return {matmul_q5_0, matmul_q5_0_dot, matmul_q5_0_tiled, matmul_q5_0_tiled_dot,
                    &matmul_q5_0_matrix};
        case model::TensorType::q5_1:
            return {matmul_q5_1, matmul_q5_1_dot, matmul_q5_1_tiled, matmul_q5_1_tiled_dot,
                    &matmul_q5_1_matrix};
        case model::TensorType::q3_k:
            return {matmul_q3_k, matmul_q3_k_dot, matmul_q3_k_tiled, matmul_q3_k_tiled_dot,
                    &matmul_q3_k_matrix};
        case model::TensorType::q4_k:
            return {matmul_q4_k, matmul_q4_k_dot, matmul_q4_k_tiled, matmul_q4_k_tiled_dot,
                    &matmul_q4_k_matrix};
        case model::TensorType::q5_k:
            return {matmul_q5_k, matmul_q5_k_dot, matmul_q5_k_tiled, matmul_q5_k_tiled_dot,
                    &matmul_q5_k_matrix};
        case model::TensorType::q6_k:
            return {matmul_q6_k, matmul_q6_k_dot, matmul_q6_k_tiled, matmul_q6_k_tiled_dot,
                    &matmul_q6_k_matrix};
        case model::TensorType::iq4_nl:
            return {matmul_iq4_nl, matmul_iq4_nl_dot, matmul_iq4_nl_tiled, matmul_iq4_nl_tiled_dot,
                    &matmul_iq4_nl_matrix};
        case model::TensorType::q2_k:
            return {matmul_q2_k, matmul_q2_k_dot, matmul_q2_k_tiled, matmul_q2_k_tiled_dot};
        case model::TensorType::iq4_xs:
            return {matmul_iq4_xs, matmul_iq4_xs_dot, matmul_iq4_xs_tiled, matmul_iq4_xs_tiled_dot};
        case model::TensorType::iq3_xxs:
            return {matmul_iq3_xxs, matmul_iq3_xxs_dot, matmul_iq3_xxs_tiled,
                    matmul_iq3_xxs_tiled_dot};
        case model::TensorType::iq3_s:
            return {matmul_iq3_s, matmul_iq3_s_dot, matmul_iq3_s_tiled, matmul_iq3_s_tiled_dot};
        case model::TensorType::iq2_xxs:
            return {matmul_iq2_xxs, matmul_iq2_xxs_dot, matmul_iq2_xxs_tiled,
                    matmul_iq2_xxs_tiled_dot};
        case model::TensorType::iq2_xs:
            return {matmul_iq2_xs, matmul_iq2_xs_dot, matmul_iq2_xs_tiled, matmul_iq2_xs_tiled_dot};
        case model::TensorType::iq2_s:
            return {matmul_iq2_s, matmul_iq2_s_dot, matmul_iq2_s_tiled, matmul_iq2_s_tiled_dot};
        case model::TensorType::tq1_0:
            return {matmul_tq1_0, matmul_tq1_0_dot, matmul_tq1_0_tiled, matmul_tq1_0_tiled_dot};
        case model::TensorType::tq2_0:
            return {matmul_tq2_0, matmul_tq2_0_dot, matmul_tq2_0_tiled, matmul_tq2_0_tiled_dot};
        case model::TensorType::iq1_s:
            return {matmul_iq1_s, matmul_iq1_s_dot, matmul_iq1_s_tiled, matmul_iq1_s_tiled_dot};
        case model::TensorType::iq1_m:
            return {matmul_iq1_m, matmul_iq1_m_dot, matmul_iq1_m_tiled, matmul_iq1_m_tiled_dot};
        case model::TensorType::nvfp4:
            return {matmul_nvfp4, matmul_nvfp4_dot, matmul_nvfp4_tiled, matmul_nvfp4_tiled_dot};
        case model::TensorType::fp8:
            return {matmul_fp8, matmul_fp8, matmul_fp8_tiled, matmul_fp8_tiled};
        case model::TensorType::int4:
            return {matmul_int4, matmul_int4_dot, matmul_int4_tiled, matmul_int4_tiled_dot};
        case model::TensorType::mxfp4:
            return {matmul_mxfp4, matmul_mxfp4_dot, matmul_mxfp4_tiled, matmul_mxfp4_tiled_dot,
                    &matmul_mxfp4_matrix};
    }
    CHECK(false);
}

}  // namespace

const Shader& matmul_shader(model::TensorType type, bool integer_dot) {
    const MatmulShaders of = matmul_shaders(type);
    return integer_dot ? of.dot : of.plain;
}

const Shader& tiled_matmul_shader(model::TensorType type, bool integer_dot) {
    const MatmulShaders of = matmul_shaders(type);
    return integer_dot ? of.tiled_dot : of.tiled;
}

const Shader* matrix_matmul_shader(model::TensorType type) {
    return matmul_shaders(type).matrix;
}

}  // namespace helix::engine
