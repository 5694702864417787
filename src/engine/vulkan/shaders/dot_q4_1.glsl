// Unit of 32 columns: [16] half scales, [16] half minima, nibbles [16][16].
#include "matmul_common.glsl"
#define HELIX_SCALE_MIN

WeightBlock load_block(uint panel, uint lane, uint block) {
    const uint unit = panel + 80 * block;
    WeightBlock w;
    unpack_nibbles(load4(unit + 16 + 4 * lane), w);
    w.d = load_half(unit, lane);
    w.d2 = load_half(unit + 8, lane);
    return w;
}
