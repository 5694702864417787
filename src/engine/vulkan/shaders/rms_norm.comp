#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = 256) in;
#include "rms_norm.glsl"
layout(push_constant, scalar) uniform Push {
    Floats x, weight, y;
    uint rows, width;
    float epsilon;
};

void main() {
    for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) {
        uint first = row * width;
        float factor = rms_factor(x, first, width, epsilon);
        for (uint i = gl_LocalInvocationIndex; i < width; i += 256u) {
            precise float value = x.v[first + i] * factor * weight.v[i];
            y.v[first + i] = value;
        }
    }
}
