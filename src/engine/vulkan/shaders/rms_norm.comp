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

// Where an element of a piece lies, so that invocations with a block each read from different banks.
uint place_of(uint i) {
    return i + i / 32u;
}

void main() {
    for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) {
        uint first = row * width;
        uint lane = gl_LocalInvocationIndex;
        float factor = rms_factor(x, first, width, epsilon);
        for (uint begin = 0u; begin < width; begin += kPiece) {
            float values[8];
            [[unroll]] for (uint k = 0u; k < 8u; ++k) {
                uint i = min(begin + 256u * k + lane, width - 1u);
                precise float value = x.v[first + i] * factor * weight.v[i];
                values[k] = value;
            }
            barrier();  // of what was done with the piece before
            [[unroll]] for (uint k = 0u; k < 8u; ++k) {
                uint i = begin + 256u * k + lane;
                if (i < width) y.v[first + i] = values[k];
                piece[place_of(256u * k + lane)] = values[k];
            }
            if (kQuantises == 0) continue;
            barrier();
            if (32u * lane < min(kPiece, width - begin)) {
                uvec4 of_block[8];
                [[unroll]] for (uint k = 0u; k < 32u; ++k)
                    of_block[k / 4u][k % 4u] = floatBitsToUint(piece[place_of(32u * lane + k)]);
                quantise(of_block, blocks, (first + begin) / 32u + lane);
            }
        }
    }
}
