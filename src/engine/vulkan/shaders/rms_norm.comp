#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "quantise.glsl"

layout(local_size_x = 256) in;
#include "rms_norm.glsl"
// y as it is, and, where kQuantises, as int8 too: then width is a multiple of 32.
layout(constant_id = 0) const uint kQuantises = 0;
layout(push_constant, scalar) uniform Push {
    Floats x, weight, y;
    Blocks blocks;
    uint rows, width;
    float epsilon;
};

void main() {
    for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) {
        uint first = row * width;
        float factor = rms_factor(x, first, width, epsilon);
        for (uint i = gl_LocalInvocationIndex; i < width; i += 256u) {
            precise float value = x.v[first + i] * factor * weight.v[i];
            y.v[first + i] = value;
        }
        if (kQuantises == 0) continue;
        memoryBarrierBuffer();
        barrier();
        for (uint block = gl_LocalInvocationIndex; block < width / 32u; block += 256u) {
            uvec4 of_block[8];
            for (uint i = 0u; i < 8u; ++i) of_block[i] = Quads(y).v[first / 4u + 8u * block + i];
            quantise(of_block, blocks, first / 32u + block);
        }
    }
}
