// Segments of quantised matmul. Included after dot_FORMAT.glsl, which gives
//   WeightHead load_head(uint panel, uint lane, uint eight)
//   RawBlock load_raw(uint panel, uint lane, uint block)
//   WeightBlock unpack_block(WeightHead head, RawBlock raw, uint lane, uint block)
// what eight blocks of a lane share, and one of them, packed and not.
#include "matmul_block.glsl"

#extension GL_EXT_control_flow_attributes : require

// Blocks that are read at a time, so that a lane waits for memory less often.
const uint kAhead = kRows == 1 ? 4 : 2;

void add_segment(uint panel, uint lane, uint first, uint end, uint row, uint end_row, inout float sums[kMaxRows]) {
    const uint row_blocks = params.cols / 32;
    const uint end_block = end / 32;
    const WeightHead head = load_head(panel, lane, first / kSegmentColumns);
    for (uint begin = first / 32; begin < end_block; begin += kAhead) {
        RawBlock raws[kAhead];
        [[unroll]] for (uint i = 0; i < kAhead; ++i) raws[i] = load_raw(panel, lane, min(begin + i, end_block - 1));
        [[unroll]] for (uint i = 0; i < kAhead; ++i) {
            const uint block = begin + i;
            if (block >= end_block) break;
            const WeightBlock w = unpack_block(head, raws[i], lane, block);
            for (uint r = 0; r < kRows; ++r) {
                if (row + r >= end_row) break;
                const uint at = ((row + r) * row_blocks + block) * 3;
                sums[r] =
                    add_block(sums[r], w, params.input_.v[at], params.input_.v[at + 1], params.input_.v[at + 2]);
            }
        }
    }
}
