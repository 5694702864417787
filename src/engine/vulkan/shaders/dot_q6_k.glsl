// Unit of 256 columns: [16] half d, then 8 x ([16] scale of columns 0-15, [16] of 16-31, nibbles [16][16], high bits
// [16][8]: bits 2g and 2g + 1 of a byte are those of group g of its half).
#include "matmul_common.glsl"
#define HELIX_SCALE_HALVES
#define HELIX_OFFSET_BITS 5

WeightBlock load_block(uint panel, uint lane, uint block) {
    const uint unit = panel + 840 * (block / 8);
    const uint eighth = unit + 8 + 104 * (block % 8);
    WeightBlock w;
    unpack_nibbles(load4(eighth + 8 + 4 * lane), w);
    const uint high = eighth + 72 + 2 * lane;
    const uvec4 shift = uvec4(0, 2, 4, 6);
    w.lower |= ((uvec4(params.weights.v[high]) >> shift) & 0x03030303) << 4;
    w.upper |= ((uvec4(params.weights.v[high + 1]) >> shift) & 0x03030303) << 4;
    const float scale = load_half(unit, lane);
    precise const float d = scale * float(load_i8(eighth, lane));
    precise const float d2 = scale * float(load_i8(eighth + 4, lane));
    w.d = d;
    w.d2 = d2;
    return w;
}
