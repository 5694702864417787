#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "integer_dot.glsl"

// Tries the integer dot product as matmul_quantised.glsl uses it. Case i has a sum in x[10i], four words in
// x[10i + 1 .. 10i + 4] and four that they are multiplied by after them; its result is y[i].
layout(local_size_x = 64) in;
layout(push_constant, scalar) uniform Push {
    Words x, y;
    uint count;
};

void main() {
    for (uint i = gl_LocalInvocationIndex; i < count; i += 64u) {
        int sum = int(x.v[10u * i]);
        for (uint k = 1u; k < 5u; ++k) sum = add_dot(sum, x.v[10u * i + k], x.v[10u * i + 4u + k]);
        y.v[i] = uint(sum);
    }
}
