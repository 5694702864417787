// Stages of quantised matmul. Included after dot_FORMAT.glsl, which gives
//   WeightHead load_head(uint panel, uint lane, uint eight)
//   RawBlock load_raw(uint panel, uint lane, uint block)
//   WeightBlock unpack_block(WeightHead head, RawBlock raw, uint lane, uint block)
// what eight blocks of a lane share, and one of them, packed and not.
#include "matmul_block.glsl"
#include "matmul_tiled_common.glsl"

layout(constant_id = 2) const uint kStageBlocks = 2;  // divides 8

const uint kStageColumns = 32 * kStageBlocks;
const uint kStageParts = 3 * kStageBlocks;  // of a row: what quantise_rows.comp makes

shared uvec4 staged_rows[kRows * kStageParts];                       // [row][part]
shared uvec4 staged_weights[2 * kStageBlocks * kTileOutputs];        // [block][half][output]
shared float staged_scales[kStageBlocks * kTileOutputs];             // [block][output]
#ifndef HELIX_SCALE_ONE
shared float staged_second[kStageBlocks * kTileOutputs];
#endif
#ifdef HELIX_HALF_MINIMA
shared vec2 staged_minima[kStageBlocks * kTileOutputs];
#endif

void stage_weights(uint panel, uint panels, uint first) {
    for (uint i = gl_LocalInvocationIndex; i < kStageBlocks * kTileOutputs; i += kLanes) {
        const uint output_ = i % kTileOutputs;
        const uint own_panel = output_ / kPanelOutputs;
        const uint block = i / kTileOutputs;
        const uint column = first + 32 * block;
        if (own_panel >= panels || column >= params.cols) continue;
        const uint at = (panel + own_panel) * params.panel_words;
        const uint panel_lane = output_ % kPanelOutputs;
        const WeightHead head = load_head(at, panel_lane, column / kSegmentColumns);
        const WeightBlock w = unpack_block(head, load_raw(at, panel_lane, column / 32), panel_lane, column / 32);
        staged_weights[2 * block * kTileOutputs + output_] = w.lower;
        staged_weights[(2 * block + 1) * kTileOutputs + output_] = w.upper;
        staged_scales[i] = w.d;
#ifndef HELIX_SCALE_ONE
        staged_second[i] = w.d2;
#endif
#ifdef HELIX_HALF_MINIMA
        staged_minima[i] = w.minima;
#endif
    }
}

void stage_rows(RowTile tile, uint first) {
    const uint row_parts = params.cols / 32 * 3;
    const uint first_part = first / 32 * 3;
    for (uint i = gl_LocalInvocationIndex; i < kRows * kStageParts; i += kLanes) {
        const uint row = tile.first + i / kStageParts;
        const uint part = first_part + i % kStageParts;
        if (row < tile.end && part < row_parts) staged_rows[i] = params.input_.v[row * row_parts + part];
    }
}

WeightBlock staged_block(uint block, uint output_) {
    WeightBlock w;
    w.lower = staged_weights[2 * block * kTileOutputs + output_];
    w.upper = staged_weights[(2 * block + 1) * kTileOutputs + output_];
    w.d = staged_scales[block * kTileOutputs + output_];
#ifndef HELIX_SCALE_ONE
    w.d2 = staged_second[block * kTileOutputs + output_];
#endif
#ifdef HELIX_HALF_MINIMA
    w.minima = staged_minima[block * kTileOutputs + output_];
#endif
    return w;
}

// What nobody staged is added to sums that nobody stores.
void add_stage(uint lane, uint own, uint first, uint rows, inout float sums[kMostEach][kMostEach]) {
    const uint blocks = min(kStageBlocks, (params.cols - first) / 32);
    for (uint block = 0; block < blocks; ++block) {
        WeightBlock w[kMostEach];
        [[unroll]] for (uint p = 0; p < kPanels; ++p) w[p] = staged_block(block, p * kPanelOutputs + lane);
        [[unroll]] for (uint r = 0; r < kRowsEach; ++r) {
            if (16 * r >= rows) continue;
            const uint at = (16 * r + own) * kStageParts + 3 * block;
            const uvec4 x_lower = staged_rows[at];
            const uvec4 x_upper = staged_rows[at + 1];
            const uvec4 more = staged_rows[at + 2];
            [[unroll]] for (uint p = 0; p < kPanels; ++p)
                sums[p][r] = add_block(sums[p][r], w[p], x_lower, x_upper, more);
        }
    }
}

#include "matmul_tiled.glsl"
