// Planes: low bits [blocks][16 lanes][8], as the high bits of q6_k, third bits [fours][16 lanes][4][4] (bit g of a byte is
// that of group g), [eights][16 lanes] of 8 scales of columns 0-15 and 8 of 16-31, half d [eights][16 lanes].
#include "matmul_common.glsl"
#define HELIX_SCALE_HALVES
#define HELIX_OFFSET_BITS 2

// Of eight blocks.
struct WeightHead {
    uvec4 third_bits[2];
    uvec4 scales;
    float d;
};

WeightHead load_head(uint panel, uint lane, uint eight) {
    const uint own = 64 * eight + 4 * lane;
    WeightHead head;
    const uint third_bits = panel + plane_words(2) + 128 * eight + 4 * lane;
    head.third_bits[0] = load4(third_bits);
    head.third_bits[1] = load4(third_bits + 64);
    const uint scales = panel + plane_words(2) + plane_words(4);
    head.scales = load4(scales + own);
    head.d = load_half(scales + plane_words(8) + 8 * eight, lane);
    return head;
}

WeightBlock load_block(WeightHead head, uint panel, uint lane, uint block) {
    WeightBlock w;
    const uvec2 low = load2(panel + 32 * block + 2 * lane);
    const uint third = pick_bits(head.third_bits, block % 8);
    const uvec4 shift = uvec4(0, 2, 4, 6);
    w.lower = (uvec4(low.x) >> shift) & 0x03030303;
    w.upper = (uvec4(low.y) >> shift) & 0x03030303;
    w.lower |= ((uvec4(third) >> uvec4(0, 1, 2, 3)) & 0x01010101) << 2;
    w.upper |= ((uvec4(third) >> uvec4(4, 5, 6, 7)) & 0x01010101) << 2;
    precise const float d = head.d * float(pick_i8(head.scales.xy, block % 8));
    precise const float d2 = head.d * float(pick_i8(head.scales.zw, block % 8));
    w.d = d;
    w.d2 = d2;
    return w;
}
