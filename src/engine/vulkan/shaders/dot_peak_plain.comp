#version 450
#extension GL_GOOGLE_include_directive : require
int add_dot(int sum, uint w, uint x) {
    const int a = int(w);
    const int b = int(x);
    sum += bitfieldExtract(a, 0, 8) * bitfieldExtract(b, 0, 8);
    sum += bitfieldExtract(a, 8, 8) * bitfieldExtract(b, 8, 8);
    sum += bitfieldExtract(a, 16, 8) * bitfieldExtract(b, 16, 8);
    return sum + (a >> 24) * (b >> 24);
}
#include "dot_peak.glsl"
