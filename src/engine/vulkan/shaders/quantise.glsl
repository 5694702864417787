// Activations as int8, 32 of them at a time. A block is three uvec4: 32 bytes q, then minus their sum, minus the sum of the
// upper half, the scale, and the scale times the sum. docs/numerics.md says how they are rounded.
#extension GL_EXT_buffer_reference : require

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Quads {
    uvec4 v[];
};
layout(buffer_reference, std430, buffer_reference_align = 16) writeonly buffer Blocks {
    uvec4 v[];
};

uint largest(uvec4 bits) {
    const uvec4 magnitude = bits & 0x7fffffff;
    return max(max(magnitude.x, magnitude.y), max(magnitude.z, magnitude.w));
}

int rounded(uint bits, float inverse) {
    precise const float scaled = uintBitsToFloat(bits) * inverse;
    return int(roundEven(scaled));
}

uint pack(uvec4 bits, float inverse, inout int sum) {
    uint word = 0;
    for (int i = 0; i < 4; ++i) {
        const int q = rounded(bits[i], inverse);
        sum += q;
        word |= (uint(q) & 0xff) << (8 * i);
    }
    return word;
}

// Of a block, by the bits of its largest magnitude: what its activations are multiplied by. 0: they are all zero, or one of
// them is no number.
float inverse_scale(uint top) {
    const float most = uintBitsToFloat(top);
    return top >= 0x7f800000 || most < 1e-30 ? 0.0 : div(127.0, most);
}

// The last uvec4 of a block, of the sums of its halves.
uvec4 scale_of_block(uint top, int lower_sum, int upper_sum) {
    if (top >= 0x7f800000) return uvec4(0, 0, uvec2(0x7fc00000));
    const float most = uintBitsToFloat(top);
    const float scale = most < 1e-30 ? 0.0 : div(most, 127.0);
    const int sum = lower_sum + upper_sum;
    precise const float scaled_sum = scale * float(sum);
    return uvec4(uint(-sum), uint(-upper_sum), floatBitsToUint(scale), floatBitsToUint(scaled_sum));
}

// x: the bits of the 32 activations of a block.
void quantise(uvec4 x[8], Blocks blocks, uint block) {
    uint top = 0;
    for (int i = 0; i < 8; ++i) top = max(top, largest(x[i]));
    uvec4 q[2] = uvec4[](uvec4(0), uvec4(0));
    int sums[2] = int[](0, 0);
    const float inverse = inverse_scale(top);
    if (inverse != 0.0) {
        for (int i = 0; i < 8; ++i) q[i / 4][i % 4] = pack(x[i], inverse, sums[i / 4]);
    }
    blocks.v[3 * block] = q[0];
    blocks.v[3 * block + 1] = q[1];
    blocks.v[3 * block + 2] = scale_of_block(top, sums[0], sums[1]);
}
