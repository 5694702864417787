// Planes: nibbles [blocks][16 lanes][16], each the number of a level, bfloat scales [eights][16 lanes][8].
#include "matmul_common.glsl"
#include "levels.glsl"
#include "mxfp4_levels.glsl"
#define HELIX_SCALE_ONE

// Of eight blocks, as it lies in memory.
struct WeightHead {
    uvec4 scales;
};

WeightHead load_head(uint panel, uint lane, uint eight) {
    const uint own = 64 * eight + 4 * lane;
    WeightHead head;
    head.scales = load4(panel + plane_words(1) + own);
    return head;
}

#include "raw_nibbles.glsl"

WeightBlock unpack_block(WeightHead head, RawBlock raw, uint lane, uint block) {
    WeightBlock w;
    unpack_nibbles(raw.nibbles, w);
    w.lower = look_up(kLevels, w.lower);
    w.upper = look_up(kLevels, w.upper);
    w.d = bfloat_to_float(pick_short(head.scales, block % 8));
    return w;
}
