// Planes: nibbles [blocks][16 lanes][16], fifth bits [fours][16 lanes][4][4], half scales [eights][16 lanes][8], half
// minima as they.
#include "matmul_common.glsl"
#define HELIX_SCALE_MIN

// Of eight blocks, as it lies in memory.
struct WeightHead {
    uvec4 fifth_bits[2];
    uvec4 scales;
    uvec4 minima;
};

WeightHead load_head(uint panel, uint lane, uint eight) {
    const uint own = 64 * eight + 4 * lane;
    WeightHead head;
    const uint fifth_bits = panel + plane_words(1) + 128 * eight + 4 * lane;
    head.fifth_bits[0] = load4(fifth_bits);
    head.fifth_bits[1] = load4(fifth_bits + 64);
    const uint scales = panel + plane_words(1) + plane_words(4) + own;
    head.scales = load4(scales);
    head.minima = load4(scales + plane_words(8));
    return head;
}

#include "raw_nibbles.glsl"

WeightBlock unpack_block(WeightHead head, RawBlock raw, uint lane, uint block) {
    WeightBlock w;
    unpack_nibbles(raw.nibbles, w);
    add_fifth_bits(pick_bits(head.fifth_bits, block % 8), w);
    w.d = pick_half(head.scales, block % 8);
    w.d2 = pick_half(head.minima, block % 8);
    return w;
}
