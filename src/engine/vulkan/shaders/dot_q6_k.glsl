// Planes: nibbles [blocks][16 lanes][16], high bits [blocks][16 lanes][8] (bits 2g and 2g + 1 of a byte are those of group
// g of its half), [eights][16 lanes] of 8 scales of columns 0-15 and 8 of 16-31, half d [eights][16 lanes].
#include "matmul_common.glsl"
#define HELIX_SCALE_HALVES
#define HELIX_OFFSET_BITS 5

// Of eight blocks.
struct WeightHead {
    uvec4 scales;
    float d;
};

WeightHead load_head(uint panel, uint lane, uint eight) {
    const uint own = 64 * eight + 4 * lane;
    WeightHead head;
    const uint scales = panel + plane_words(1) + plane_words(2);
    head.scales = load4(scales + own);
    head.d = load_half(scales + plane_words(8) + 8 * eight, lane);
    return head;
}

WeightBlock load_block(WeightHead head, uint panel, uint lane, uint block) {
    WeightBlock w;
    unpack_nibbles(load4(panel + 64 * block + 4 * lane), w);
    const uvec2 high = load2(panel + plane_words(1) + 32 * block + 2 * lane);
    const uvec4 shift = uvec4(0, 2, 4, 6);
    w.lower |= ((uvec4(high.x) >> shift) & 0x03030303) << 4;
    w.upper |= ((uvec4(high.y) >> shift) & 0x03030303) << 4;
    precise const float d = head.d * float(pick_i8(head.scales.xy, block % 8));
    precise const float d2 = head.d * float(pick_i8(head.scales.zw, block % 8));
    w.d = d;
    w.d2 = d2;
    return w;
}
