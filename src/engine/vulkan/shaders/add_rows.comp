#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = 128) in;
layout(push_constant, scalar) uniform Push {
    Floats x, y;
    uint count;
    float factor;
};

void main() {
    for (uint i = gl_GlobalInvocationID.x; i < count; i += gl_NumWorkGroups.x * 128u) {
        precise float sum = y.v[i] + factor * x.v[i];
        y.v[i] = sum;
    }
}
