// Unit of 32 columns: [16] half scales, nibbles [16][16], each the number of a level.
#include "matmul_common.glsl"
#include "levels.glsl"
#define HELIX_SCALE_ONE

const int kLevels[16] = int[](-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);

WeightBlock load_block(uint panel, uint lane, uint block) {
    const uint unit = panel + 72 * block;
    WeightBlock w;
    unpack_nibbles(load4(unit + 8 + 4 * lane), w);
    w.lower = look_up(kLevels, w.lower);
    w.upper = look_up(kLevels, w.upper);
    w.d = load_half(unit, lane);
    return w;
}
