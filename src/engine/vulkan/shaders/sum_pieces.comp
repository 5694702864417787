#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "logits.glsl"

// The sums of a row's pieces, of numbers or of the weights of logits. Sixteen lanes add the numbers that are equal
// modulo 16 in ascending order, and their sums are folded; a workgroup has sixteen pieces.
layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Push {
    Floats x;    // [rows, width]
    Floats y;    // [rows, y_stride], of which the first are written
    Floats top;  // [rows, top_stride]: the first is taken from a row's logits before they are weighed
    uint rows, width, y_stride, top_stride;
    uint weigh;  // 0: x are numbers
};

shared float sums[256];

void main() {
    uint pieces = pieces_of(width);
    uint self = gl_LocalInvocationIndex;
    uint lane = self % 16u;
    for (uint first = gl_WorkGroupID.x * 16u; first < rows * pieces; first += gl_NumWorkGroups.x * 16u) {
        uint task = first + self / 16u;
        bool inside = task < rows * pieces;
        uint row = task / pieces;
        uint piece = task % pieces;
        precise float sum = 0.0;
        if (inside) {
            uint end = min((piece + 1u) * kPiece, width);
            float shift = weigh != 0u ? top.v[row * top_stride] : 0.0;
            for (uint i = piece * kPiece + lane; i < end; i += 16u) {
                float value = x.v[row * width + i];
                if (weigh != 0u) {
                    precise float below = value - shift;
                    value = exp_or_zero(below);
                }
                sum = sum + value;
            }
        }
        sums[self] = sum;
        barrier();
        for (uint apart = 8u; apart > 0u; apart >>= 1) {
            if (lane < apart) {
                precise float both = sums[self] + sums[self + apart];
                sums[self] = both;
            }
            barrier();
        }
        if (inside && lane == 0u) y.v[row * y_stride + piece] = sums[self];
        barrier();
    }
}
