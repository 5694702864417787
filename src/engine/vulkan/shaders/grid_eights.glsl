// Points of eight elements, which have two bits each in the words of model/quant/grids.h: a level's number in each byte.
uvec2 level_numbers(uint word, uint point) {
    const uint bits = word >> (16 * (point % 2));
    const uvec2 fours = uvec2(bits & 0xff, bits >> 8 & 0xff);
    return (fours | fours << 6 | fours << 12 | fours << 18) & 0x03030303;
}

// Of IQ2: levels are 8, 25 and 43.
uvec2 magnitudes(uint word, uint point) {
    const uvec2 numbers = level_numbers(word, point);
    return 0x08080808 + 17 * numbers + (numbers >> 1 & 0x01010101);
}
uvec2 signed_magnitudes(uvec2 points, uint signs) {
    return uvec2(with_signs(points.x, signs & 15), with_signs(points.y, signs >> 4));
}

// Of IQ1: 8 times an element and 1 more; 1 less where delta is negative (down).
uvec2 raised_levels(uint word, uint point, bool down) {
    return (8 * level_numbers(word, point) + (down ? 0x77777777u : 0x79797979u)) ^ 0x80808080u;
}

#ifndef HELIX_SCALE_ONE
// odd: a nibble for each of both scales.
void place_scales(inout WeightBlock w, float scale, uint odd) {
    precise const float d = scale * float(2 * (odd & 15) + 1) * 0.125;
    w.d = d;
    precise const float d2 = scale * float(2 * (odd >> 4) + 1) * 0.125;
    w.d2 = d2;
}
#endif
