#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// Tries the device's own floats of halves. Case i has two halves in the word x[i], whose floats
// are y[2i] and y[2i + 1].
layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Push {
    Words x, y;
    uint count;
};

void main() {
    for (uint i = gl_LocalInvocationIndex; i < count; i += 256u) {
        const vec2 floats = unpackHalf2x16(x.v[i]);
        y.v[2u * i] = floatBitsToUint(floats.x);
        y.v[2u * i + 1u] = floatBitsToUint(floats.y);
    }
}
