#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// A workgroup for each row. Sums have 16 lanes; lane l takes elements l, l + 16 and so on; then they are folded in halves.
layout(local_size_x = 128) in;
layout(push_constant, scalar) uniform Push {
    Floats x, weight, y;
    uint rows, width;
    float epsilon;
    uint n_weights;
};
shared float lanes[16];

// The sum of what the lanes have, over the width; all invocations get it.
float mean_of(float sum) {
    uint lane = gl_LocalInvocationIndex;
    barrier();  // of what was done with the lanes before
    if (lane < 16u) lanes[lane] = sum;
    barrier();
    for (uint apart = 8u; apart > 0u; apart >>= 1) {
        if (lane < apart) {
            precise float both = lanes[lane] + lanes[lane + apart];
            lanes[lane] = both;
        }
        barrier();
    }
    return div(lanes[0], float(width));
}

void main() {
    uint lane = gl_LocalInvocationIndex;
    for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) {
        uint first = row * width;
        uint first_weight = row % n_weights * width;
        precise float sum = 0.0;
        for (uint i = lane; lane < 16u && i < width; i += 16u) sum = sum + x.v[first + i];
        float mean = mean_of(sum);
        float squares = 0.0;
        for (uint i = lane; lane < 16u && i < width; i += 16u) {
            precise float apart = x.v[first + i] - mean;
            squares = fma_exact(apart, apart, squares);
        }
        precise float variance = mean_of(squares) + epsilon;
        float factor = div(1.0, square_root(variance));
        for (uint i = lane; i < width; i += 128u) {
            precise float value = (x.v[first + i] - mean) * factor * weight.v[first_weight + i];
            y.v[first + i] = value;
        }
    }
}
