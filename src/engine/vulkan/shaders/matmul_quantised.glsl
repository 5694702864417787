// Segments of quantised matmul. Included after dot_FORMAT.glsl, which gives
//   WeightHead load_head(uint panel, uint lane, uint eight)
//   RawBlock load_raw(uint panel, uint lane, uint block)
//   WeightBlock unpack_block(WeightHead head, RawBlock raw, uint lane, uint block)
// what eight blocks of a lane share, and one of them, packed and not.
#include "matmul_block.glsl"

#extension GL_EXT_control_flow_attributes : require

// Blocks that are read at a time, so that a lane waits for memory less often; of one row its activations, too.
const uint kAhead = kRows == 1 ? 4 : 2;
const uint kRowAhead = kRows == 1 ? 3 * kAhead : 1;

void add_segment(uint panel, uint lane, uint first, uint end, uint row, uint end_row, inout float sums[kMaxRows]) {
    const uint row_blocks = params.cols / 32;
    const uint end_block = end / 32;
    const WeightHead head = load_head(panel, lane, first / kSegmentColumns);
    for (uint begin = first / 32; begin < end_block; begin += kAhead) {
        RawBlock raws[kAhead];
        uvec4 x[kRowAhead];
        [[unroll]] for (uint i = 0; i < kAhead; ++i) raws[i] = load_raw(panel, lane, min(begin + i, end_block - 1));
        if (kRows == 1) {
            const uint last = 3 * (row * row_blocks + end_block) - 1;
            [[unroll]] for (uint i = 0; i < kRowAhead; ++i)
                x[i] = params.input_.v[min(3 * (row * row_blocks + begin) + i, last)];
        }
        [[unroll]] for (uint i = 0; i < kAhead; ++i) {
            const uint block = begin + i;
            if (block >= end_block) break;
            const WeightBlock w = unpack_block(head, raws[i], lane, block);
            if (kRows == 1) {
                sums[0] = add_block(sums[0], w, x[(3 * i) % kRowAhead], x[(3 * i + 1) % kRowAhead], x[(3 * i + 2) % kRowAhead]);
                continue;
            }
            for (uint r = 0; r < kRows; ++r) {
                if (row + r >= end_row) break;
                const uint at = ((row + r) * row_blocks + block) * 3;
                sums[r] =
                    add_block(sums[r], w, params.input_.v[at], params.input_.v[at + 1], params.input_.v[at + 2]);
            }
        }
    }
}
