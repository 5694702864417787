#include "engine/vulkan/matmul_shaders.h"

#include "base/check.h"
#include "shaders/helix_engine.h"

namespace helix::engine {

const Shader& matmul_shader(model::TensorType type, bool integer_dot) {
    switch (type) {
        case model::TensorType::f32:
            return shaders::matmul_f32;
        case model::TensorType::f16:
            return shaders::matmul_f16;
        case model::TensorType::bf16:
            return shaders::matmul_bf16;
        case model::TensorType::q8_0:
            return integer_dot ? shaders::matmul_q8_0_dot : shaders::matmul_q8_0;
        case model::TensorType::q4_0:
            return integer_dot ? shaders::matmul_q4_0_dot : shaders::matmul_q4_0;
        case model::TensorType::q4_1:
            return integer_dot ? shaders::matmul_q4_1_dot : shaders::matmul_q4_1;
        case model::TensorType::q5_0:
            return integer_dot ? shaders::matmul_q5_0_dot : shaders::matmul_q5_0;
        case model::TensorType::q5_1:
            return integer_dot ? shaders::matmul_q5_1_dot : shaders::matmul_q5_1;
        case model::TensorType::q3_k:
            return integer_dot ? shaders::matmul_q3_k_dot : shaders::matmul_q3_k;
        case model::TensorType::q4_k:
            return integer_dot ? shaders::matmul_q4_k_dot : shaders::matmul_q4_k;
        case model::TensorType::q5_k:
            return integer_dot ? shaders::matmul_q5_k_dot : shaders::matmul_q5_k;
        case model::TensorType::q6_k:
            return integer_dot ? shaders::matmul_q6_k_dot : shaders::matmul_q6_k;
        case model::TensorType::iq4_nl:
            return integer_dot ? shaders::matmul_iq4_nl_dot : shaders::matmul_iq4_nl;
        case model::TensorType::mxfp4:
            return integer_dot ? shaders::matmul_mxfp4_dot : shaders::matmul_mxfp4;
    }
    CHECK(false);
}

}  // namespace helix::engine
