// A block: half d, 32 bytes of numbers of points, 8 shorts of the numbers' upper bits, a scale and a sign
// (model/quant/iq1.h).
#define HELIX_GRID_WORDS 1024
#include "matmul_common.glsl"
#define HELIX_SCALE_ONE
const uint kScaleByte = 0;
const uint kLaneWords = 13;
#include "codes.glsl"
#include "grid_eights.glsl"
#include "shared_grid.glsl"

WeightBlock unpack_block(WeightHead head, RawBlock raw, uint lane, uint block) {
    WeightBlock w;
    const uint part = block % 8;
    const uint group = load_short(raw.at, 34 + 2 * part);
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        const uint point = load_byte(raw.at, 2 + 4 * part + i) | (group >> (3 * i) & 7) << 8;
        place_eight(w, i, raised_levels(shared_grid[point / 2], point, group >> 15 != 0));
    }
    precise const float d = head.d * float(2 * (group >> 12 & 7) + 1) * 0.125;
    w.d = d;
    return w;
}
