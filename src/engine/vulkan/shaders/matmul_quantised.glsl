// Segments of quantised matmul. Included after dot_FORMAT.glsl, which gives
//   WeightHead load_head(uint panel, uint lane, uint eight)
//   WeightBlock load_block(WeightHead head, uint panel, uint lane, uint block)
// what eight blocks of a lane share, and one of them.
#include "matmul_block.glsl"

void add_segment(uint panel, uint lane, uint first, uint end, uint row, uint end_row, inout float sums[kMaxRows]) {
    const uint row_blocks = params.cols / 32;
    const WeightHead head = load_head(panel, lane, first / kSegmentColumns);
    for (uint block = first / 32; block < end / 32; ++block) {
        const WeightBlock w = load_block(head, panel, lane, block);
        for (uint r = 0; r < kRows; ++r) {
            if (row + r >= end_row) break;
            const uint at = ((row + r) * row_blocks + block) * 3;
            sums[r] =
                add_block(sums[r], w, params.input_.v[at], params.input_.v[at + 1], params.input_.v[at + 2]);
        }
    }
}
