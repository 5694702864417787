// Reading packed weights. A block of 32 columns of one output: bytes of columns 0-15 in lower, of 16-31 in upper, four
// to a word; d is its scale, d2 its minimum or the scale of its upper half.
struct WeightBlock {
    uvec4 lower;
    uvec4 upper;
    float d;
    float d2;
};

const uint kMaxRows = 8;

uvec4 load4(uint word) {
    return Words4(params.weights).v[word / 4];
}
uint load_short(uint word, uint i) {
    return (params.weights.v[word + i / 2] >> (16 * (i % 2))) & 0xffff;
}
float load_half(uint word, uint i) {
    return half_to_float(load_short(word, i));
}
uint load_u8(uint word, uint i) {
    return (params.weights.v[word + i / 4] >> (8 * (i % 4))) & 0xff;
}
int load_i8(uint word, uint i) {
    return bitfieldExtract(int(params.weights.v[word + i / 4]), int(8 * (i % 4)), 8);
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
