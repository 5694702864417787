// Planes: low bits [blocks][16 lanes][8], as the high bits of q6_k, third bits [fours][16 lanes][4][4] (bit g of a byte is
// that of group g), [eights][16 lanes] of 8 scales of columns 0-15 and 8 of 16-31, half d [eights][16 lanes].
#include "matmul_common.glsl"
#define HELIX_SCALE_HALVES
#define HELIX_OFFSET_BITS 2

// Of eight blocks, as it lies in memory.
struct WeightHead {
    uvec4 third_bits[2];
    uvec4 scales;
    uint halves;  // d, of this lane and of its neighbour
};

// Of one block, as it lies in memory.
struct RawBlock {
    uvec2 low;
};

WeightHead load_head(uint panel, uint lane, uint eight) {
    const uint own = 64 * eight + 4 * lane;
    WeightHead head;
    const uint third_bits = panel + plane_words(2) + 128 * eight + 4 * lane;
    head.third_bits[0] = load4(third_bits);
    head.third_bits[1] = load4(third_bits + 64);
    const uint scales = panel + plane_words(2) + plane_words(4);
    head.scales = load4(scales + own);
    head.halves = params.weights.v[scales + plane_words(8) + 8 * eight + lane / 2];
    return head;
}

RawBlock load_raw(uint panel, uint lane, uint block) {
    return RawBlock(load2(panel + 32 * block + 2 * lane));
}

WeightBlock unpack_block(WeightHead head, RawBlock raw, uint lane, uint block) {
    WeightBlock w;
    const uint third = pick_bits(head.third_bits, block % 8);
    const uvec4 shift = uvec4(0, 2, 4, 6);
    w.lower = (uvec4(raw.low.x) >> shift) & 0x03030303;
    w.upper = (uvec4(raw.low.y) >> shift) & 0x03030303;
    w.lower |= ((uvec4(third) >> uvec4(0, 1, 2, 3)) & 0x01010101) << 2;
    w.upper |= ((uvec4(third) >> uvec4(4, 5, 6, 7)) & 0x01010101) << 2;
    const float of_all = half_to_float(bitfieldExtract(head.halves, int(16 * (lane % 2)), 16));
    precise const float d = of_all * float(pick_i8(head.scales.xy, block % 8));
    precise const float d2 = of_all * float(pick_i8(head.scales.zw, block % 8));
    w.d = d;
    w.d2 = d2;
    return w;
}
