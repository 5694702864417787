#version 450
#extension GL_GOOGLE_include_directive : require
// Activations as int8.
#include "numerics.glsl"
const uint kQuantiseLanes = 64;
#include "quantise_fours.glsl"

layout(local_size_x = 64) in;

layout(push_constant, std430) uniform Params {
    Quads x;
    Blocks blocks;
    uint count;  // of fours
} params;

void main() {
    const uint step = gl_NumWorkGroups.x * kQuantiseLanes;
    for (uint begin = gl_WorkGroupID.x * kQuantiseLanes; begin < params.count; begin += step) {
        const uint four = begin + gl_LocalInvocationIndex;
        quantise_four(params.x.v[min(four, params.count - 1)], params.blocks, four, params.count);
    }
}
