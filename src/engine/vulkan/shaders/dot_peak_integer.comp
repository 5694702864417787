#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_spirv_intrinsics : require
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int sdot4x8(uint a, uint b, spirv_literal int packed_format);
int add_dot(int sum, uint w, uint x) {
    return sum + sdot4x8(w, x, 0);
}
#include "dot_peak.glsl"
