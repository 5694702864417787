// y = x times a matrix, transposed, for many rows: each weight is read once for kRows of them. Included by
// matmul_FORMAT_tiled.comp after what gives
//   kSegmentColumns, and kStageColumns that divide them
//   void stage_weights(uint panel, uint panels, uint first), void stage_rows(RowTile tile, uint first)
// which bring columns [first, first + kStageColumns) into shared memory, of kPanels panels from the one numbered `panel`
// on, `panels` of which exist, and of kRows rows, and
//   void add_stage(uint lane, uint own, uint first, uint rows, inout float sums[kMostEach][kMostEach])
// which adds them up, in the order of docs/numerics.md: [p][r] is output `lane` of panel p for row 16 * r + own, if
// it is below `rows`; and with HELIX_SEGMENT_SCALES
//   float scaled_sum(float sum, uint panel, uint lane, uint first)
// what is added of a segment's sum, whose last stage begins with column `first`.
//
// A workgroup computes the outputs of kPanels panels for a tile of rows. Its lanes lie in 16 x 16; each has kPanels
// outputs for kRows / 16 rows. Workgroups that read the same weights follow each other.

#include "factors.glsl"

void main() {
#ifdef HELIX_GRID_WORDS
    share_grid();
#endif
    const uint lane = gl_LocalInvocationID.x;
    const uint own = gl_LocalInvocationID.y;
    const RowTile tile = find_tile(gl_WorkGroupID.x);
    if (tile.first >= tile.end) return;
    const uint panels = (params.outputs + kPanelOutputs - 1) / kPanelOutputs;
    const uint first_panel = gl_WorkGroupID.y * kPanels;
    const uint rows = min(kRows, tile.end - tile.first);

    float sums[kMostEach][kMostEach];
    precise float totals[kMostEach][kMostEach];
    [[unroll]] for (uint p = 0; p < kPanels; ++p) {
        [[unroll]] for (uint r = 0; r < kRowsEach; ++r) {
            sums[p][r] = 0.0;
            totals[p][r] = 0.0;
        }
    }
    for (uint first = 0; first < params.cols; first += kStageColumns) {
        barrier();  // the stage before has been added
        stage_weights(tile.expert * panels + first_panel, panels - first_panel, first);
        stage_rows(tile, first);
        barrier();
        add_stage(lane, own, first, rows, sums);
        const uint end = first + kStageColumns;
        if (end % kSegmentColumns != 0 && end < params.cols) continue;
        [[unroll]] for (uint p = 0; p < kPanels; ++p) {
            [[unroll]] for (uint r = 0; r < kRowsEach; ++r) {
#ifdef HELIX_SEGMENT_SCALES
                const uint panel = tile.expert * panels + min(first_panel + p, panels - 1);
                sums[p][r] = scaled_sum(sums[p][r], panel, lane, first);
#endif
                totals[p][r] = totals[p][r] + sums[p][r];
                sums[p][r] = 0.0;
            }
        }
    }
    [[unroll]] for (uint p = 0; p < kPanels; ++p) {
        const uint column = (first_panel + p) * kPanelOutputs + lane;
        [[unroll]] for (uint r = 0; r < kRowsEach; ++r) {
            const uint row = 16 * r + own;
            if (row < rows && column < params.outputs)
                store_total(with_factor(totals[p][r], tile.expert), tile.first + row, column);
        }
    }
}
