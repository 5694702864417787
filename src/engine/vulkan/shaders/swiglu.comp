#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "quantise.glsl"

const uint kLanes = 128u;
layout(local_size_x = 128) in;
// gate as it becomes, and, where kQuantises, as int8 too: then count is a multiple of 32.
layout(constant_id = 0) const uint kQuantises = 0;
layout(push_constant, scalar) uniform Push {
    Floats gate, up;
    Blocks blocks;
    uint count;
};
shared uvec4 made[kLanes / 4u];

void main() {
    uint lane = gl_LocalInvocationIndex;
    for (uint first = gl_WorkGroupID.x * kLanes; first < count; first += gl_NumWorkGroups.x * kLanes) {
        uint i = first + lane;
        if (i < count) {
            float g = gate.v[i];
            precise float minus = 0.0 - g;
            precise float below = 1.0 + exp_of(minus);
            precise float value = div(g, below) * up.v[i];
            gate.v[i] = value;
            if (kQuantises != 0) made[lane / 4u][lane % 4u] = floatBitsToUint(value);
        }
        if (kQuantises == 0) continue;
        barrier();
        if (lane < kLanes / 32u && first + 32u * lane < count) {
            uvec4 of_block[8];
            for (uint k = 0u; k < 8u; ++k) of_block[k] = made[8u * lane + k];
            quantise(of_block, blocks, first / 32u + lane);
        }
        barrier();
    }
}
