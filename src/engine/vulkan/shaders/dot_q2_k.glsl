// Planes: bits [blocks][16 lanes][8], as the low bits of q3_k, [eights][16 lanes] of 8 bytes of columns 0-15 and 8 of
// 16-31, each a scale (low nibble) and a minimum, d and dmin [eights][16 lanes][2] halves.
#define HELIX_SCALE_HALVES
#define HELIX_HALF_MINIMA
#include "matmul_common.glsl"

// Of eight blocks, as it lies in memory.
struct WeightHead {
    uvec4 scales;
    uint halves;  // d and dmin
};

// Of one block, as it lies in memory.
struct RawBlock {
    uvec2 low;
};

WeightHead load_head(uint panel, uint lane, uint eight) {
    const uint own = 64 * eight + 4 * lane;
    WeightHead head;
    const uint scales = panel + plane_words(2);
    head.scales = load4(scales + own);
    head.halves = params.weights.v[scales + plane_words(8) + 16 * eight + lane];
    return head;
}

RawBlock load_raw(uint panel, uint lane, uint block) {
    return RawBlock(load2(panel + 32 * block + 2 * lane));
}

WeightBlock unpack_block(WeightHead head, RawBlock raw, uint lane, uint block) {
    WeightBlock w;
    const uvec4 shift = uvec4(0, 2, 4, 6);
    w.lower = (uvec4(raw.low.x) >> shift) & 0x03030303;
    w.upper = (uvec4(raw.low.y) >> shift) & 0x03030303;
    const vec2 both = unpack_halves(head.halves);
    const uint lower = pick_u8(head.scales.xy, block % 8);
    const uint upper = pick_u8(head.scales.zw, block % 8);
    precise const float d = both.x * float(lower & 15);
    precise const float d2 = both.x * float(upper & 15);
    precise const float lower_min = both.y * float(lower >> 4);
    precise const float upper_min = both.y * float(upper >> 4);
    w.d = d;
    w.d2 = d2;
    w.minima = vec2(lower_min, upper_min);
    return w;
}
