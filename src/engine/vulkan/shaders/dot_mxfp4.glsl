// Unit of 32 columns: [16] bfloat scales, nibbles [16][16], each the number of a level.
#include "matmul_common.glsl"
#include "levels.glsl"
#define HELIX_SCALE_ONE

const int kLevels[16] = int[](0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);

WeightBlock load_block(uint panel, uint lane, uint block) {
    const uint unit = panel + 72 * block;
    WeightBlock w;
    unpack_nibbles(load4(unit + 8 + 4 * lane), w);
    w.lower = look_up(kLevels, w.lower);
    w.upper = look_up(kLevels, w.upper);
    w.d = uintBitsToFloat(load_short(unit, lane) << 16);
    return w;
}
