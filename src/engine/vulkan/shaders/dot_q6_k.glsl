// Planes: nibbles [blocks][16 lanes][16], high bits [blocks][16 lanes][8] (bits 2g and 2g + 1 of a byte are those of group
// g of its half), [eights][16 lanes] of 8 scales of columns 0-15 and 8 of 16-31, half d [eights][16 lanes].
#include "matmul_common.glsl"
#define HELIX_SCALE_HALVES
#define HELIX_OFFSET_BITS 5

// Of eight blocks, as it lies in memory.
struct WeightHead {
    uvec4 scales;
    uint halves;  // d, of this lane and of its neighbour
};

// Of one block, as it lies in memory.
struct RawBlock {
    uvec4 nibbles;
    uvec2 high;
};

WeightHead load_head(uint panel, uint lane, uint eight) {
    const uint own = 64 * eight + 4 * lane;
    WeightHead head;
    const uint scales = panel + plane_words(1) + plane_words(2);
    head.scales = load4(scales + own);
    head.halves = params.weights.v[scales + plane_words(8) + 8 * eight + lane / 2];
    return head;
}

RawBlock load_raw(uint panel, uint lane, uint block) {
    return RawBlock(load4(panel + 64 * block + 4 * lane), load2(panel + plane_words(1) + 32 * block + 2 * lane));
}

WeightBlock unpack_block(WeightHead head, RawBlock raw, uint lane, uint block) {
    WeightBlock w;
    unpack_nibbles(raw.nibbles, w);
    const uvec4 shift = uvec4(0, 2, 4, 6);
    w.lower |= ((uvec4(raw.high.x) >> shift) & 0x03030303) << 4;
    w.upper |= ((uvec4(raw.high.y) >> shift) & 0x03030303) << 4;
    const float of_all = half_to_float(bitfieldExtract(head.halves, int(16 * (lane % 2)), 16));
    precise const float d = of_all * float(pick_i8(head.scales.xy, block % 8));
    precise const float d2 = of_all * float(pick_i8(head.scales.zw, block % 8));
    w.d = d;
    w.d2 = d2;
    return w;
}
