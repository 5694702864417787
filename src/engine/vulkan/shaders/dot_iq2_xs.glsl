// A block: half d, 32 shorts of a point's number and seven signs, 16 nibbles of scales (model/quant/iq2.h).
#define HELIX_GRID_WORDS 256
#include "matmul_common.glsl"
#define HELIX_SCALE_HALVES
const uint kScaleByte = 0;
const uint kLaneWords = 19;
#include "codes.glsl"
#include "grid_eights.glsl"
#include "shared_grid.glsl"

WeightBlock unpack_block(WeightHead head, RawBlock raw, uint lane, uint block) {
    WeightBlock w;
    const uint part = block % 8;
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        const uint both = load_short(raw.at, 2 + 8 * part + 2 * i);
        const uint point = both & 511;
        place_eight(w, i, signed_magnitudes(magnitudes(shared_grid[point / 2], point), eight_signs(both >> 9)));
    }
    place_scales(w, head.d, load_byte(raw.at, 66 + part));
    return w;
}
