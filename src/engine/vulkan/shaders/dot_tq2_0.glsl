// A block: 2 x 32 bytes of four times two bits, half d (model/quant/tq.h).
#include "matmul_common.glsl"
#define HELIX_SCALE_ONE
const uint kScaleByte = 64;
const uint kLaneWords = 17;
#include "codes.glsl"

// Four bytes, each less one.
uint load_four(uint at, uint word, uint shift) {
    return ((params.weights.v[at + word] >> shift & 0x03030303) + 0x7f7f7f7f) ^ 0x80808080;
}

WeightBlock unpack_block(WeightHead head, RawBlock raw, uint lane, uint block) {
    WeightBlock w;
    const uint part = block % 8;
    const uint first = 8 * (part / 4);
    const uint shift = 2 * (part % 4);
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        w.lower[i] = load_four(raw.at, first + i, shift);
        w.upper[i] = load_four(raw.at, first + 4 + i, shift);
    }
    w.d = head.d;
    return w;
}
