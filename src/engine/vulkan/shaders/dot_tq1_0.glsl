// A block: 48 bytes of five digits of base three, 4 of four, half d (model/quant/tq.h).
#include "matmul_common.glsl"
#define HELIX_SCALE_ONE
const uint kScaleByte = 52;
const uint kLaneWords = 14;
#include "codes.glsl"

// Digit n of each of four bytes, less one.
uint digits(uint bytes, uint n) {
    const uint power = ((n & 1) != 0 ? 3 : 1) * ((n & 2) != 0 ? 9 : 1) * ((n & 4) != 0 ? 81 : 1);
    const uint even = ((bytes & 0x00ff00ff) * power & 0x00ff00ff) * 3 >> 8 & 0x00ff00ff;
    const uint odd = ((bytes >> 8 & 0x00ff00ff) * power & 0x00ff00ff) * 3 & 0xff00ff00;
    return ((even | odd) + 0x7f7f7f7f) ^ 0x80808080;
}

// Columns 16 i ... 16 i + 15 of the block of 256.
uvec4 load_sixteen(uint at, uint i) {
    const bool has_four = i == 15;
    const uint first = i < 10 ? i % 2 * 4 : 8;
    const uint n = i < 10 ? i / 2 : i - 10;
    uvec4 sixteen;
    [[unroll]] for (uint k = 0; k < 4; ++k)
        sixteen[k] = digits(params.weights.v[at + (has_four ? 12 : first + k)], has_four ? k : n);
    return sixteen;
}

WeightBlock unpack_block(WeightHead head, RawBlock raw, uint lane, uint block) {
    WeightBlock w;
    const uint part = block % 8;
    w.lower = load_sixteen(raw.at, 2 * part);
    w.upper = load_sixteen(raw.at, 2 * part + 1);
    w.d = head.d;
    return w;
}
