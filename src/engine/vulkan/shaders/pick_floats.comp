#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = 64) in;
layout(push_constant, scalar) uniform Push {
    Words x, at, y;
    uint n;
};

void main() {
    for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * 64u) y.v[i] = x.v[at.v[i]];
}
