#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = 128) in;
layout(push_constant, scalar) uniform Push {
    Floats x, y, weights;
    Words visit_of;
    uint rows, width, n_used, replace, weighted;
};

void main() {
    for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) {
        for (uint i = gl_LocalInvocationIndex; i < width; i += 128u) {
            precise float sum = 0.0;
            if (replace == 0u) sum = y.v[row * width + i];
            for (uint n = 0u; n < n_used; ++n) {
                uint at = row * n_used + n;
                const float weight = weighted != 0u ? weights.v[at] : 1.0;
                precise const float product = weight * x.v[visit_of.v[at] * width + i];
                sum = sum + product;
            }
            y.v[row * width + i] = sum;
        }
    }
}
