// Unit of 32 columns: [16] half scales, lower bytes [16][16], upper bytes [16][16], all 128 too large.
#include "matmul_common.glsl"
#define HELIX_SCALE_ONE

WeightBlock load_block(uint panel, uint lane, uint block) {
    const uint unit = panel + 136 * block;
    WeightBlock w;
    w.d = load_half(unit, lane);
    w.lower = load4(unit + 8 + 4 * lane) ^ 0x80808080;
    w.upper = load4(unit + 72 + 4 * lane) ^ 0x80808080;
    return w;
}
