// Four bytes, each the number of a level, become the levels.
uint look_up_word(int levels[16], uint word) {
    uint result = 0;
    for (uint i = 0; i < 32; i += 8) result |= (uint(levels[(word >> i) & 15]) & 0xff) << i;
    return result;
}
uvec4 look_up(int levels[16], uvec4 words) {
    return uvec4(look_up_word(levels, words.x), look_up_word(levels, words.y), look_up_word(levels, words.z),
                 look_up_word(levels, words.w));
}
