// A block: half d, 32 bytes of numbers of points, 32 of signs, 8 of the numbers' upper bits, 16 nibbles of scales
// (model/quant/iq2.h).
#define HELIX_GRID_WORDS 512
#include "matmul_common.glsl"
#define HELIX_SCALE_HALVES
const uint kScaleByte = 0;
const uint kLaneWords = 21;
#include "codes.glsl"
#include "grid_eights.glsl"
#include "shared_grid.glsl"

WeightBlock unpack_block(WeightHead head, RawBlock raw, uint lane, uint block) {
    WeightBlock w;
    const uint part = block % 8;
    const uint high = load_byte(raw.at, 66 + part);
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        const uint point = load_byte(raw.at, 2 + 4 * part + i) | (high >> (2 * i) & 3) << 8;
        const uint signs = load_byte(raw.at, 34 + 4 * part + i);
        place_eight(w, i, signed_magnitudes(magnitudes(shared_grid[point / 2], point), signs));
    }
    place_scales(w, head.d, load_byte(raw.at, 74 + part));
    return w;
}
