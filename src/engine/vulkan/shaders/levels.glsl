#extension GL_EXT_control_flow_attributes : require
// Four bytes, each the number of a level, become the levels: for each bit of the numbers half of the levels are dropped,
// of all four bytes at once. A table that is indexed would lie in memory.
uint look_up_word(int levels[16], uint word) {
    uint left[16];
    [[unroll]] for (uint i = 0; i < 16; ++i) left[i] = (uint(levels[i]) & 0xff) * 0x01010101;
    [[unroll]] for (uint bit = 0; bit < 4; ++bit) {
        const uint is_odd = ((word >> bit) & 0x01010101) * 0xff;
        [[unroll]] for (uint i = 0; i < 8 >> bit; ++i)
            left[i] = left[2 * i] ^ ((left[2 * i] ^ left[2 * i + 1]) & is_odd);
    }
    return left[0];
}
uvec4 look_up(int levels[16], uvec4 words) {
    return uvec4(look_up_word(levels, words.x), look_up_word(levels, words.y), look_up_word(levels, words.z),
                 look_up_word(levels, words.w));
}
