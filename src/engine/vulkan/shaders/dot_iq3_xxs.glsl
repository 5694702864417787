// A block: half d, 8 x 8 numbers of points, 8 words of four times seven signs and the scale (model/quant/iq3.h).
#define HELIX_GRID_WORDS 128
#include "matmul_common.glsl"
#define HELIX_SCALE_ONE
const uint kScaleByte = 0;
const uint kLaneWords = 25;
#include "codes.glsl"
#include "grid_fours.glsl"
#include "shared_grid.glsl"

// Levels are 4, 12, 20 ... but for the last, which is 62.
uint load_point(uint at, uint i) {
    const uint point = load_byte(at, i);
    const uint numbers = level_numbers(shared_grid[point / 2], point);
    const uint is_last = numbers & numbers >> 1 & numbers >> 2 & 0x01010101;
    return 8 * numbers + 0x04040404 + 2 * is_last;
}

WeightBlock unpack_block(WeightHead head, RawBlock raw, uint lane, uint block) {
    WeightBlock w;
    const uint part = block % 8;
    const uint signs = load_word(raw.at, 66 + 4 * part);
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        const uint eight = eight_signs(signs >> (7 * i) & 127);
        const uint first = 2 + 8 * part + 2 * i;
        const uvec2 both = uvec2(with_signs(load_point(raw.at, first), eight & 15),
                                 with_signs(load_point(raw.at, first + 1), eight >> 4));
        place_eight(w, i, both);
    }
    precise const float d = head.d * float(2 * (signs >> 28) + 1) * 0.25;
    w.d = d;
    return w;
}
