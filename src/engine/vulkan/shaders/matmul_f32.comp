#version 450
#extension GL_GOOGLE_include_directive : require
#include "matmul_common.glsl"

const uint kUnitColumns = 4;

void load_unit(uint at, out float w[kUnitColumns]) {
    const vec4 words = uintBitsToFloat(load4(at));
    for (uint i = 0; i < 4; ++i) w[i] = words[i];
}

#include "matmul_float.glsl"
#include "matmul.glsl"
