#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// Tries what shaders rely on beside prove.comp's arithmetic. Case i has a word x[i] and results y[5i .. 5i + 4]; then
// come its lower halves, 16 bits for each case, and then rounded quotients, 8 bits for each: neighbours are written by
// other invocations.
layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Push {
    Words x, y;
    uint count;
};

void main() {
    for (uint i = gl_LocalInvocationIndex; i < count; i += 256u) {
        uint word = x.v[i];
        int whole = int(word);
        float value = uintBitsToFloat(word);
        y.v[5u * i] = floatBitsToUint(half_to_float(word & 0xffffu));
        y.v[5u * i + 1u] = float_to_half(value) | (float_to_bfloat(value) << 16);
        y.v[5u * i + 2u] = uint(bitfieldExtract(whole, 0, 8) + 3 * bitfieldExtract(whole, 8, 8) +
                                5 * bitfieldExtract(whole, 16, 8) + 7 * (whole >> 24));
        y.v[5u * i + 3u] = floatBitsToUint(float(whole >> 8));
        y.v[5u * i + 4u] = uint(findMSB(word));
        precise float quotient = float(whole >> 17) * 0.00390625;
        Shorts(y).v[10u * count + i] = uint16_t(word & 0xffffu);
        Chars(y).v[22u * count + i] = int8_t(int(roundEven(quotient)));
    }
}
