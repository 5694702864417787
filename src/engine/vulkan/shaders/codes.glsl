// Formats of codes, whose blocks of 256 columns lie in a panel as they are in a file, filled up to whole words:
// [blocks][16 lanes][words]. Included by dot_FORMAT.glsl after it has defined kLaneWords, which are so many, and
// kScaleByte, where d is, a half; with HELIX_SPREAD_SCALE four shorts are there, whose upper four bits are d's, the
// lowest first.
#extension GL_EXT_control_flow_attributes : require

// Nothing that blocks of 32 columns share is read before they are.
struct WeightHead {
    float d;
};
// Where the block of 256 columns begins.
struct RawBlock {
    uint at;
};

RawBlock load_raw(uint panel, uint lane, uint block) {
    return RawBlock(panel + (16 * (block / 8) + lane) * kLaneWords);
}

uint load_byte(uint at, uint i) {
    return bitfieldExtract(params.weights.v[at + i / 4], int(8 * (i % 4)), 8);
}
// i is even.
uint load_short(uint at, uint i) {
    return bitfieldExtract(params.weights.v[at + i / 4], int(8 * (i % 4)), 16);
}
// i is even.
uint load_word(uint at, uint i) {
    return load_short(at, i) | load_short(at, i + 2) << 16;
}

WeightHead load_head(uint panel, uint lane, uint eight) {
    const uint at = load_raw(panel, lane, 8 * eight).at;
    WeightHead head;
#ifdef HELIX_SPREAD_SCALE
    uint d = 0;
    for (uint i = 0; i < 4; ++i) d |= load_short(at, kScaleByte + 2 * i) >> 12 << 4 * i;
    head.d = half_to_float(d);
#else
    head.d = half_to_float(load_short(at, kScaleByte));
#endif
    return head;
}

// Seven signs, and the eighth, which makes the number of those that are set even.
uint eight_signs(uint seven) {
    return seven | (bitCount(seven) & 1) << 7;
}

// Four bytes of 1 to 127, those negated whose bit is set.
uint with_signs(uint points, uint signs) {
    const uint mask = ((signs & 0xf) * 0x00204081u & 0x01010101) * 0xff;
    return (points ^ mask) + (mask & 0x01010101);
}

// Columns 8 i ... 8 i + 7 of a block.
void place_eight(inout WeightBlock w, uint i, uvec2 eight) {
    if (i == 0) w.lower.xy = eight;
    if (i == 1) w.lower.zw = eight;
    if (i == 2) w.upper.xy = eight;
    if (i == 3) w.upper.zw = eight;
}
