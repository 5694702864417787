// Unit of 256 columns: [16] half d, [16] half dmin, then 8 x ([16] scale, [16] min, nibbles [16][16], fifth bits
// [16][4]).
#include "matmul_common.glsl"
#define HELIX_SCALE_MIN

WeightBlock load_block(uint panel, uint lane, uint block) {
    const uint unit = panel + 720 * (block / 8);
    const uint eighth = unit + 16 + 88 * (block % 8);
    WeightBlock w;
    unpack_nibbles(load4(eighth + 8 + 4 * lane), w);
    add_fifth_bits(params.weights.v[eighth + 72 + lane], w);
    precise const float d = load_half(unit, lane) * float(load_u8(eighth, lane));
    precise const float min = -load_half(unit + 8, lane) * float(load_u8(eighth + 4, lane));
    w.d = d;
    w.d2 = min;
    return w;
}
