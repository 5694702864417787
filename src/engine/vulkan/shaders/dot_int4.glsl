// Planes: nibbles [blocks][16 lanes][16], scales of 16 bits [eights][16 lanes][8], zeros [eights][16 lanes][8], whose highest
// bit says that the scale is a bfloat, not a half (model/quant/int4.h).
#include "matmul_common.glsl"
#define HELIX_SCALE_ONE

// Of eight blocks, as it lies in memory.
struct WeightHead {
    uvec4 scales;
    uvec2 zeros;
};

WeightHead load_head(uint panel, uint lane, uint eight) {
    const uint scales = panel + plane_words(1);
    WeightHead head;
    head.scales = load4(scales + 64 * eight + 4 * lane);
    head.zeros = load2(scales + plane_words(8) + 32 * eight + 2 * lane);
    return head;
}

#include "raw_nibbles.glsl"

// Bytes less the same number, both below 128.
uvec4 less(uvec4 bytes, uint number) {
    return ((bytes | 0x80808080) - number * 0x01010101) ^ 0x80808080;
}

WeightBlock unpack_block(WeightHead head, RawBlock raw, uint lane, uint block) {
    const uint zero = pick_u8(head.zeros, block % 8);
    const uint scale = pick_short(head.scales, block % 8);
    WeightBlock w;
    unpack_nibbles(raw.nibbles, w);
    w.lower = less(w.lower, zero & 15);
    w.upper = less(w.upper, zero & 15);
    w.d = (zero & 0x80) != 0 ? bfloat_to_float(scale) : half_to_float(scale);
    return w;
}
