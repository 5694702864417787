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
        for (uint begin = gl_LocalInvocationIndex; begin < width; begin += 8u * 256u) {
            float values[8];
            [[unroll]] for (uint k = 0u; k < 8u; ++k) {
                uint i = min(begin + 256u * k, width - 1u);
                precise float value = x.v[first + i] * factor * weight.v[i];
                values[k] = value;
            }
            [[unroll]] for (uint k = 0u; k < 8u; ++k)
                if (begin + 256u * k < width) y.v[first + begin + 256u * k] = values[k];
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
