// Stages of matmul with float weights. Included after what gives
//   kUnitColumns, and void load_unit(uint at, out float w[kUnitColumns])
// the columns of one output that lie in four words at word `at`; and with HELIX_SEGMENT_SCALES load_segment_scale(), as
// matmul_float.glsl.
//
// Columns that the matrix does not have are staged as zeros. They change nothing but the sign of a sum that is zero,
// which is lost when the sum is added to a total.
#include "matmul_tiled_common.glsl"

const uint kSegmentColumns = 64;
const uint kStageColumns = 16;
const uint kStageParts = kStageColumns / 4;

shared vec4 staged_rows[kRows * kStageParts];            // [row][part]
shared vec4 staged_weights[kStageParts * kTileOutputs];  // [part][output]

void stage_weights(uint panel, uint panels, uint first) {
    const uint kUnits = kStageColumns / kUnitColumns;
    for (uint i = gl_LocalInvocationIndex; i < kUnits * kTileOutputs; i += kLanes) {
        const uint output_ = i % kTileOutputs;
        const uint own_panel = output_ / kPanelOutputs;
        const uint column = first + i / kTileOutputs * kUnitColumns;
        float w[kUnitColumns];
        [[unroll]] for (uint k = 0; k < kUnitColumns; ++k) w[k] = 0.0;
        if (own_panel < panels && column < params.cols) {
            load_unit((panel + own_panel) * params.panel_words + 64 * (column / kUnitColumns) +
                          4 * (output_ % kPanelOutputs),
                      w);
        }
        [[unroll]] for (uint k = 0; k < kUnitColumns / 4; ++k) {
            const uint part = i / kTileOutputs * (kUnitColumns / 4) + k;
            staged_weights[part * kTileOutputs + output_] = vec4(w[4 * k], w[4 * k + 1], w[4 * k + 2], w[4 * k + 3]);
        }
    }
}

// Four columns of a row. A row is made of vec4 where its columns are.
vec4 load_row(uint row, uint column) {
    const uint at = row * params.cols + column;
    if (params.cols % 4 == 0) return uintBitsToFloat(params.input_.v[at / 4]);
    Floats x = Floats(params.input_);
    vec4 four = vec4(0.0);
    for (uint k = 0; k < min(4, params.cols - column); ++k) four[k] = x.v[at + k];
    return four;
}

void stage_rows(RowTile tile, uint first) {
    for (uint i = gl_LocalInvocationIndex; i < kRows * kStageParts; i += kLanes) {
        const uint row = tile.first + i / kStageParts;
        const uint column = first + i % kStageParts * 4;
        staged_rows[i] = row < tile.end && column < params.cols ? load_row(row, column) : vec4(0.0);
    }
}

void add_stage(uint lane, uint own, uint first, uint rows, inout float sums[kMostEach][kMostEach]) {
    for (uint part = 0; part < kStageParts; ++part) {
        vec4 w[kMostEach];
        [[unroll]] for (uint p = 0; p < kPanels; ++p)
            w[p] = staged_weights[part * kTileOutputs + p * kPanelOutputs + lane];
        [[unroll]] for (uint r = 0; r < kRowsEach; ++r) {
            if (16 * r >= rows) continue;
            const vec4 x = staged_rows[(16 * r + own) * kStageParts + part];
            [[unroll]] for (uint p = 0; p < kPanels; ++p) {
                [[unroll]] for (uint k = 0; k < 4; ++k) sums[p][r] = fma_exact(w[p][k], x[k], sums[p][r]);
            }
        }
    }
}

#ifdef HELIX_SEGMENT_SCALES
float scaled_sum(float sum, uint panel, uint lane, uint first) {
    precise const float scaled =
        sum * load_segment_scale(panel * params.panel_words, lane, first / kSegmentColumns);
    return scaled;
}
#endif

#include "matmul_tiled.glsl"
