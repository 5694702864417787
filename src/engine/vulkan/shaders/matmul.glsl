// y = x times a matrix, transposed. Included by matmul_FORMAT.comp after what gives
//   kSegmentColumns, and
//   void add_segment(uint panel, uint lane, uint first, uint end, uint row, uint end_row, inout float sums[kMaxRows])
// the sums of columns [first, end) of output `lane` of the panel, which begins at word `panel` of the weights, for
// rows [row, row + kRows) below end_row.
//
// A workgroup computes the 16 outputs of a panel for a tile of rows. Its lanes lie in 16 x 16: one for each output
// and segment. After every 16 segments the lanes of the first rows add the segments' sums to their totals, in order.

#include "matmul_rows.glsl"
#include "factors.glsl"

const uint kSegmentLanes = 16;

shared float segment_sums[kMaxRows][kSegmentLanes][kPanelOutputs];

void main() {
#ifdef HELIX_GRID_WORDS
    share_grid();
#endif
    const uint lane = gl_LocalInvocationID.x;
    const uint own = gl_LocalInvocationID.y;
    const RowTile tile = find_tile(gl_WorkGroupID.y);
    if (tile.first >= tile.end) return;
    const uint panels = (params.outputs + kPanelOutputs - 1) / kPanelOutputs;
    const uint panel = (tile.expert * panels + gl_WorkGroupID.x) * params.panel_words;
    const uint segments = (params.cols + kSegmentColumns - 1) / kSegmentColumns;

    precise float total = 0.0;
    for (uint round = 0; round < segments; round += kSegmentLanes) {
        const uint segment = round + own;
        float sums[kMaxRows];
        for (uint r = 0; r < kRows; ++r) sums[r] = 0.0;
        if (segment < segments) {
            const uint first = segment * kSegmentColumns;
            add_segment(panel, lane, first, min(first + kSegmentColumns, params.cols), tile.first, tile.end, sums);
        }
        for (uint r = 0; r < kRows; ++r) segment_sums[r][own][lane] = sums[r];
        barrier();
        if (own < kRows) {
            const uint n = min(kSegmentLanes, segments - round);
            for (uint s = 0; s < n; ++s) total = total + segment_sums[own][s][lane];
        }
        barrier();
    }
    const uint row = tile.first + own;
    const uint column = gl_WorkGroupID.x * kPanelOutputs + lane;
    if (own < kRows && row < tile.end && column < params.outputs)
        store_total(with_factor(total, tile.expert), row, column);
}
