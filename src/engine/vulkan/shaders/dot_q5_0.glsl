// Unit of 32 columns: [16] half scales, nibbles [16][16], fifth bits [16][4].
#include "matmul_common.glsl"
#define HELIX_SCALE_ONE
#define HELIX_OFFSET_BITS 4

WeightBlock load_block(uint panel, uint lane, uint block) {
    const uint unit = panel + 88 * block;
    WeightBlock w;
    unpack_nibbles(load4(unit + 8 + 4 * lane), w);
    add_fifth_bits(params.weights.v[unit + 72 + lane], w);
    w.d = load_half(unit, lane);
    return w;
}
