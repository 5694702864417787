// Blocks of 64 columns lie in a panel as they are in a file, [blocks][16 lanes][9 words]: a word of four scales, 8 words of
// nibbles, two for sixteen columns, each the number of a level (model/quant/nvfp4.h).
#define HELIX_FACTORS
#include "matmul_common.glsl"
#include "levels.glsl"
#include "mxfp4_levels.glsl"
#define HELIX_SCALE_HALVES

// Eight blocks share nothing.
struct WeightHead {
    uint panel;
};
struct RawBlock {
    uvec4 nibbles;
    uint scales;
};

WeightHead load_head(uint panel, uint lane, uint eight) {
    return WeightHead(panel);
}

RawBlock load_raw(uint panel, uint lane, uint block) {
    const uint at = panel + (16 * (block / 2) + lane) * 9;
    RawBlock raw;
    raw.scales = params.weights.v[at] >> (16 * (block % 2));
    [[unroll]] for (uint i = 0; i < 4; ++i) raw.nibbles[i] = params.weights.v[at + 1 + 4 * (block % 2) + i];
    return raw;
}

// Half of an E4M3 number without a sign; the one that is no number counts as zero.
float half_of_e4m3(uint bits) {
    const uint magnitude = bits & 0x7f;
    precise const float subnormal = float(magnitude) * 0.0009765625;
    const float normal = uintBitsToFloat((magnitude << 20) + (119u << 23));
    return bits == 0x7f ? 0.0 : magnitude < 8 ? subnormal : normal;
}

// Columns 0-7 are the low nibbles of two words.
uvec4 levels_of(uvec2 nibbles) {
    return look_up(kLevels, uvec4(nibbles, nibbles >> 4) & 0x0f0f0f0f);
}

WeightBlock unpack_block(WeightHead head, RawBlock raw, uint lane, uint block) {
    WeightBlock w;
    w.lower = levels_of(raw.nibbles.xy);
    w.upper = levels_of(raw.nibbles.zw);
    w.d = half_of_e4m3(raw.scales & 0xff);
    w.d2 = half_of_e4m3(raw.scales >> 8 & 0xff);
    return w;
}
