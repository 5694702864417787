// A block: 32 bytes of numbers of points, 32 nibbles of the numbers' upper bits and a sign, 4 shorts of four scales and
// four bits of d (model/quant/iq1.h).
#define HELIX_GRID_WORDS 1024
#include "matmul_common.glsl"
#define HELIX_SCALE_HALVES
#define HELIX_SPREAD_SCALE
const uint kScaleByte = 48;
const uint kLaneWords = 14;
#include "codes.glsl"
#include "grid_eights.glsl"
#include "shared_grid.glsl"

WeightBlock unpack_block(WeightHead head, RawBlock raw, uint lane, uint block) {
    WeightBlock w;
    const uint part = block % 8;
    const uint nibbles = load_short(raw.at, 32 + 2 * part);
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        const uint nibble = nibbles >> (4 * i);
        const uint point = load_byte(raw.at, 4 * part + i) | (nibble & 7) << 8;
        place_eight(w, i, raised_levels(shared_grid[point / 2], point, (nibble & 8) != 0));
    }
    const uint odd = load_short(raw.at, kScaleByte + 2 * (part / 2)) >> (6 * (part % 2));
    place_scales(w, head.d, (odd & 7) | (odd & 0x38) << 1);
    return w;
}
