#version 450
#extension GL_GOOGLE_include_directive : require
// Activations as int8: a lane for each block of 32.
#extension GL_EXT_buffer_reference : require
#include "numerics.glsl"
#include "quantise.glsl"

layout(local_size_x = 64) in;

layout(push_constant, std430) uniform Params {
    Quads x;
    Blocks blocks;
    uint count;  // of blocks
} params;

void main() {
    const uint step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    for (uint block = gl_GlobalInvocationID.x; block < params.count; block += step) {
        uvec4 x[8];
        for (int i = 0; i < 8; ++i) x[i] = params.x.v[8 * block + i];
        quantise(x, params.blocks, block);
    }
}
