#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = 128) in;
layout(push_constant, scalar) uniform Push {
    Floats gate, up;
    uint count;
};

void main() {
    uint step = gl_NumWorkGroups.x * 128u;
    for (uint i = gl_GlobalInvocationID.x; i < count; i += step) {
        float g = gate.v[i];
        precise float minus = 0.0 - g;
        precise float below = 1.0 + exp_of(minus);
        precise float value = div(g, below) * up.v[i];
        gate.v[i] = value;
    }
}
