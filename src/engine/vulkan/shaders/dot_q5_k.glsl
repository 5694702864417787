// Planes: nibbles [blocks][16 lanes][16], fifth bits [fours][16 lanes][4][4], [eights][16 lanes] of 8 scales and 8 minima,
// d and dmin [eights][16 lanes][2] halves.
#include "matmul_common.glsl"
#define HELIX_SCALE_MIN

// Of eight blocks, as it lies in memory.
struct WeightHead {
    uvec4 fifth_bits[2];
    uvec4 scales;
    uint halves;  // d and dmin
};

WeightHead load_head(uint panel, uint lane, uint eight) {
    const uint own = 64 * eight + 4 * lane;
    WeightHead head;
    const uint fifth_bits = panel + plane_words(1) + 128 * eight + 4 * lane;
    head.fifth_bits[0] = load4(fifth_bits);
    head.fifth_bits[1] = load4(fifth_bits + 64);
    const uint scales = panel + plane_words(1) + plane_words(4);
    head.scales = load4(scales + own);
    head.halves = params.weights.v[scales + plane_words(8) + 16 * eight + lane];
    return head;
}

#include "raw_nibbles.glsl"

WeightBlock unpack_block(WeightHead head, RawBlock raw, uint lane, uint block) {
    WeightBlock w;
    unpack_nibbles(raw.nibbles, w);
    add_fifth_bits(pick_bits(head.fifth_bits, block % 8), w);
    const vec2 both = unpack_halves(head.halves);
    precise const float d = both.x * float(pick_u8(head.scales.xy, block % 8));
    precise const float min = -both.y * float(pick_u8(head.scales.zw, block % 8));
    w.d = d;
    w.d2 = min;
    return w;
}
