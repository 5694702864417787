// What a block of 32 columns adds: the exact int32 sum of byte products, scaled and added by one fma
// (docs/numerics.md). Included after dot_FORMAT.glsl, which defines one of HELIX_SCALE_ONE, HELIX_SCALE_MIN and
// HELIX_SCALE_HALVES, with this perhaps HELIX_HALF_MINIMA; HELIX_OFFSET_BITS: weights are so many powers of two too
// large.

const uint kSegmentColumns = 256;

#ifdef HELIX_INTEGER_DOT
#include "integer_dot.glsl"
#else
int add_dot(int sum, uint w, uint x) {
    const int a = int(w);
    const int b = int(x);
    sum += bitfieldExtract(a, 0, 8) * bitfieldExtract(b, 0, 8);
    sum += bitfieldExtract(a, 8, 8) * bitfieldExtract(b, 8, 8);
    sum += bitfieldExtract(a, 16, 8) * bitfieldExtract(b, 16, 8);
    return sum + (a >> 24) * (b >> 24);
}
#endif

int add_half_dot(int sum, uvec4 w, uvec4 x) {
    sum = add_dot(sum, w.x, x.x);
    sum = add_dot(sum, w.y, x.y);
    sum = add_dot(sum, w.z, x.z);
    return add_dot(sum, w.w, x.w);
}

// Adds a block of weights times one of activations. More: minus the sum of its bytes, minus that of the upper half,
// its scale, and the scale times the sum.
float add_block(float sum, WeightBlock w, uvec4 x_lower, uvec4 x_upper, uvec4 more) {
    const float scale = uintBitsToFloat(more.z);
#ifdef HELIX_SCALE_HALVES
    const int minus_lower = int(more.x) - int(more.y);
#ifdef HELIX_OFFSET_BITS
    const int lower_offset = minus_lower << HELIX_OFFSET_BITS;
    const int upper_offset = int(more.y) << HELIX_OFFSET_BITS;
#else
    const int lower_offset = 0;
    const int upper_offset = 0;
#endif
    const int lower_sum = add_half_dot(lower_offset, w.lower, x_lower);
    const int upper_sum = add_half_dot(upper_offset, w.upper, x_upper);
    precise const float lower = float(lower_sum) * w.d;
    precise float both = fma_exact(float(upper_sum), w.d2, lower);
#ifdef HELIX_HALF_MINIMA
    both = fma_exact(float(minus_lower), w.minima.x, both);
    both = fma_exact(float(int(more.y)), w.minima.y, both);
#endif
    return fma_exact(both, scale, sum);
#else
#ifdef HELIX_OFFSET_BITS
    const int offset = int(more.x) << HELIX_OFFSET_BITS;
#else
    const int offset = 0;
#endif
    const int dot = add_half_dot(add_half_dot(offset, w.lower, x_lower), w.upper, x_upper);
    precise const float d = w.d * scale;
    sum = fma_exact(float(dot), d, sum);
#ifdef HELIX_SCALE_MIN
    sum = fma_exact(uintBitsToFloat(more.w), w.d2, sum);
#endif
    return sum;
#endif
}
