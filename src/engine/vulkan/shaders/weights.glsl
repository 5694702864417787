// Reading packed weights. A block of 32 columns of one output: bytes of columns 0-15 in lower, of 16-31 in upper, four
// to a word; d is its scale, d2 its minimum or the scale of its upper half.
struct WeightBlock {
    uvec4 lower;
    uvec4 upper;
    float d;
    float d2;
#ifdef HELIX_HALF_MINIMA
    vec2 minima;  // of both halves
#endif
};

const uint kMaxRows = 8;

// A panel is planes, one after the other (device_panels.cc), each [groups of blocks][16 lanes][bytes]. The words of one
// whose lanes have 16 bytes for so many blocks:
uint plane_words(uint blocks) {
    return 64 * ((params.cols / 32 + blocks - 1) / blocks);
}

uvec4 load4(uint word) {
    return Words4(params.weights).v[word / 4];
}
uvec2 load2(uint word) {
    return Words2(params.weights).v[word / 2];
}

vec2 unpack_halves(uint word) {
    return vec2(half_to_float(word & 0xffff), half_to_float(word >> 16));
}

// Of what a lane has for eight blocks, that of block i.
uint pick_word(uvec4 words, uint i) {
    const uvec2 two = (i & 2) == 0 ? words.xy : words.zw;
    return (i & 1) == 0 ? two.x : two.y;
}
uint pick_short(uvec4 shorts, uint i) {
    return bitfieldExtract(pick_word(shorts, i / 2), int(16 * (i % 2)), 16);
}
float pick_half(uvec4 halves, uint i) {
    return half_to_float(pick_short(halves, i));
}
uint pick_u8(uvec2 bytes, uint i) {
    return bitfieldExtract(i < 4 ? bytes.x : bytes.y, int(8 * (i % 4)), 8);
}
int pick_i8(uvec2 bytes, uint i) {
    return bitfieldExtract(int(i < 4 ? bytes.x : bytes.y), int(8 * (i % 4)), 8);
}
uint pick_bits(uvec4 words[2], uint i) {
    return pick_word(i < 4 ? words[0] : words[1], i % 4);
}

// 16 bytes of two nibbles each.
void unpack_nibbles(uvec4 both, out WeightBlock block) {
    block.lower = both & 0x0f0f0f0f;
    block.upper = (both >> 4) & 0x0f0f0f0f;
}
// Bit g of each byte is the fifth bit of group g.
void add_fifth_bits(uint bits, inout WeightBlock block) {
    const uvec4 lower = (uvec4(bits) >> uvec4(0, 1, 2, 3)) & 0x01010101;
    const uvec4 upper = (uvec4(bits) >> uvec4(4, 5, 6, 7)) & 0x01010101;
    block.lower |= lower << 4;
    block.upper |= upper << 4;
}
