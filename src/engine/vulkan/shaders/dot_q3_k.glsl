// Unit of 256 columns: [16] half d, then 8 x ([16] scale of columns 0-15, [16] of 16-31, low bits [16][8] as the high
// bits of q6_k, third bits [16][4]: bit g of a byte is that of group g).
#include "matmul_common.glsl"
#define HELIX_SCALE_HALVES
#define HELIX_OFFSET_BITS 2

WeightBlock load_block(uint panel, uint lane, uint block) {
    const uint unit = panel + 456 * (block / 8);
    const uint eighth = unit + 8 + 56 * (block % 8);
    const uint low = eighth + 8 + 2 * lane;
    const uint third = params.weights.v[eighth + 40 + lane];
    const uvec4 shift = uvec4(0, 2, 4, 6);
    WeightBlock w;
    w.lower = (uvec4(params.weights.v[low]) >> shift) & 0x03030303;
    w.upper = (uvec4(params.weights.v[low + 1]) >> shift) & 0x03030303;
    w.lower |= ((uvec4(third) >> uvec4(0, 1, 2, 3)) & 0x01010101) << 2;
    w.upper |= ((uvec4(third) >> uvec4(4, 5, 6, 7)) & 0x01010101) << 2;
    const float scale = load_half(unit, lane);
    precise const float d = scale * float(load_i8(eighth, lane));
    precise const float d2 = scale * float(load_i8(eighth + 4, lane));
    w.d = d;
    w.d2 = d2;
    return w;
}
