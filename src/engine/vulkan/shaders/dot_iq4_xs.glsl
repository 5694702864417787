// Planes: nibbles [blocks][16 lanes][16], each the number of a level, scales [eights][16 lanes][8], half d [eights][16
// lanes].
#include "matmul_common.glsl"
#include "levels.glsl"
#include "iq4_levels.glsl"
#define HELIX_SCALE_ONE

// Of eight blocks, as it lies in memory.
struct WeightHead {
    uvec2 scales;
    uint halves;  // d, of this lane and of its neighbour
};

WeightHead load_head(uint panel, uint lane, uint eight) {
    WeightHead head;
    const uint scales = panel + plane_words(1);
    head.scales = load2(scales + 32 * eight + 2 * lane);
    head.halves = params.weights.v[scales + plane_words(8) / 2 + 8 * eight + lane / 2];
    return head;
}

#include "raw_nibbles.glsl"

WeightBlock unpack_block(WeightHead head, RawBlock raw, uint lane, uint block) {
    WeightBlock w;
    unpack_nibbles(raw.nibbles, w);
    w.lower = look_up(kLevels, w.lower);
    w.upper = look_up(kLevels, w.upper);
    const float of_all = half_to_float(bitfieldExtract(head.halves, int(16 * (lane % 2)), 16));
    precise const float d = of_all * float(pick_i8(head.scales, block % 8));
    w.d = d;
    return w;
}
