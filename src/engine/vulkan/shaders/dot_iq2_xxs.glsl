// A block: half d, 8 x (4 numbers of points, a word of four times seven signs and the scale) (model/quant/iq2.h).
#define HELIX_GRID_WORDS 128
#include "matmul_common.glsl"
#define HELIX_SCALE_ONE
const uint kScaleByte = 0;
const uint kLaneWords = 17;
#include "codes.glsl"
#include "grid_eights.glsl"
#include "shared_grid.glsl"

WeightBlock unpack_block(WeightHead head, RawBlock raw, uint lane, uint block) {
    WeightBlock w;
    const uint first = 2 + 8 * (block % 8);
    const uint signs = load_word(raw.at, first + 4);
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        const uint point = load_byte(raw.at, first + i);
        place_eight(w, i, signed_magnitudes(magnitudes(shared_grid[point / 2], point), eight_signs(signs >> (7 * i) & 127)));
    }
    precise const float d = head.d * float(2 * (signs >> 28) + 1) * 0.125;
    w.d = d;
    return w;
}
