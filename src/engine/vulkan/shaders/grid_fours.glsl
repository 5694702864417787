// Points of four elements, which have three bits each in the words of model/quant/grids.h: a level's number in each byte.
uint level_numbers(uint word, uint point) {
    const uint bits = word >> (16 * (point % 2));
    return (bits & 7) | (bits & 0x38) << 5 | (bits & 0x1c0) << 10 | (bits & 0xe00) << 15;
}
