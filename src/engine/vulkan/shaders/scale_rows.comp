#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "caps.glsl"

layout(local_size_x = 128) in;
layout(push_constant, scalar) uniform Push {
    Floats x;
    uint count;
    float factor, cap;
};

void main() {
    for (uint i = gl_GlobalInvocationID.x; i < count; i += gl_NumWorkGroups.x * 128u) {
        precise float value = factor * x.v[i];
        x.v[i] = cap > 0.0 ? capped(value, cap) : value;
    }
}
