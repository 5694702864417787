#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// Tries the arithmetic that all shaders rely on: case i has inputs x[3i .. 3i + 2] and results y[6i .. 6i + 5].
// Every result travels through another invocation of the workgroup, over any subgroup's edge.
layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Push {
    Floats x, y;
    uint count;
};
shared float results[256][6];

void main() {
    uint lane = gl_LocalInvocationIndex;
    for (uint first = 0u; first < count; first += 256u) {
        uint i = min(first + lane, count - 1u);
        float a = x.v[3u * i];
        float b = x.v[3u * i + 1u];
        float c = x.v[3u * i + 2u];
        precise float sum = a + c;
        precise float product = a * b;
        results[lane][0] = fma_exact(a, b, c);
        results[lane][1] = sum;
        results[lane][2] = product;
        results[lane][3] = div(a, b);
        results[lane][4] = square_root(a);
        results[lane][5] = exp_or_zero(c);
        barrier();
        uint other = 255u - lane;
        if (first + other < count) {
            for (uint k = 0u; k < 6u; ++k) y.v[6u * (first + other) + k] = results[other][k];
        }
        barrier();
    }
}
