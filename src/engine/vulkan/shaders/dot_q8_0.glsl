// Planes: bytes of columns 0-15 [blocks][16 lanes][16], of 16-31 as they, all 128 too large, half scales [eights][16
// lanes][8].
#include "matmul_common.glsl"
#define HELIX_SCALE_ONE

// Of eight blocks, as it lies in memory.
struct WeightHead {
    uvec4 scales;
};

// Of one block, as it lies in memory.
struct RawBlock {
    uvec4 lower;
    uvec4 upper;
};

WeightHead load_head(uint panel, uint lane, uint eight) {
    const uint own = 64 * eight + 4 * lane;
    WeightHead head;
    head.scales = load4(panel + 2 * plane_words(1) + own);
    return head;
}

RawBlock load_raw(uint panel, uint lane, uint block) {
    const uint lower = panel + 64 * block + 4 * lane;
    return RawBlock(load4(lower), load4(lower + plane_words(1)));
}

WeightBlock unpack_block(WeightHead head, RawBlock raw, uint lane, uint block) {
    WeightBlock w;
    w.lower = raw.lower ^ 0x80808080;
    w.upper = raw.upper ^ 0x80808080;
    w.d = pick_half(head.scales, block % 8);
    return w;
}
