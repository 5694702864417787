// A block: half d, 8 x 8 numbers of points, 8 bytes of their ninth bits, 8 x 4 bytes of signs, 8 nibbles of scales
// (model/quant/iq3.h).
#define HELIX_GRID_WORDS 256
#include "matmul_common.glsl"
#define HELIX_SCALE_ONE
const uint kScaleByte = 0;
const uint kLaneWords = 28;
#include "codes.glsl"
#include "grid_fours.glsl"
#include "shared_grid.glsl"

uint load_point(uint at, uint i, uint ninth) {
    const uint point = load_byte(at, i) | ninth << 8;
    return 2 * level_numbers(shared_grid[point / 2], point) + 0x01010101;
}

WeightBlock unpack_block(WeightHead head, RawBlock raw, uint lane, uint block) {
    WeightBlock w;
    const uint part = block % 8;
    const uint high = load_byte(raw.at, 66 + part);
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        const uint signs = load_byte(raw.at, 74 + 4 * part + i);
        const uint first = 2 + 8 * part + 2 * i;
        const uvec2 both = uvec2(with_signs(load_point(raw.at, first, high >> (2 * i) & 1), signs & 15),
                                 with_signs(load_point(raw.at, first + 1, high >> (2 * i + 1) & 1), signs >> 4));
        place_eight(w, i, both);
    }
    const uint odd = load_byte(raw.at, 106 + part / 2) >> (4 * (part % 2)) & 15;
    precise const float d = head.d * float(2 * odd + 1);
    w.d = d;
    return w;
}
