#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = 128) in;
layout(push_constant, scalar) uniform Push {
    Floats x, bias;
    Words expert;  // of each row, where each has one
    uint rows, width, has_expert;
};

void main() {
    for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) {
        uint first = has_expert != 0u ? expert.v[row] * width : 0u;
        for (uint i = gl_LocalInvocationIndex; i < width; i += 128u) {
            precise float sum = x.v[row * width + i] + bias.v[first + i];
            x.v[row * width + i] = sum;
        }
    }
}
