// y = x times a quantised matrix, transposed, for many rows, on a device's matrix cores: their int8 products are summed in
// int32, so they are the exact sums of docs/numerics.md. Included after dot_FORMAT.glsl, which gives
//   WeightHead load_head(uint panel, uint lane, uint eight)
//   RawBlock load_raw(uint panel, uint lane, uint block)
//   WeightBlock unpack_block(WeightHead head, RawBlock raw, uint lane, uint block)
// what eight blocks of a lane share, and one of them, packed and not.
//
// A workgroup of eight subgroups computes the outputs of kPanels panels for a tile of kRows rows. Some columns of both are
// brought into shared memory at a time; those that come next are read while these are multiplied. A subgroup has
// kPanelsEach panels for kRowsEach times 16 rows; where there are not as many for all, the last subgroups only bring.
// Which lane has which element of a matrix is the device's secret, so scales are brought as matrices, too: all rows, or
// all columns, of which are the same.
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#include "matmul_rows.glsl"

layout(constant_id = 1) const uint kPanels = 1;
layout(constant_id = 2) const uint kStageBlocks = 2;  // of 32 columns; divides 8
layout(constant_id = 3) const uint kPanelsEach = 1;
layout(constant_id = 4) const uint kRowsEach = 1;

const uint kSegmentColumns = 256;
const uint kLanes = 256;
const uint kTilesEach = kPanelsEach * kRowsEach;
const uint kStageColumns = 32 * kStageBlocks;
const uint kTileOutputs = kPanelOutputs * kPanels;
const uint kRowTiles = kRows / 16;
const uint kRowParts = kRowTiles / kRowsEach;  // subgroups beside each other
const uint kRowQuads = 2 * kStageBlocks + 1;  // of 16 bytes; one more, so that rows begin in other banks
#ifdef HELIX_SCALE_HALVES
const uint kBlockQuads = 4;  // the lower half and zeros, zeros and the upper half: the cores multiply 32 columns
#else
const uint kBlockQuads = 2;
#endif
const uint kOutputQuads = kBlockQuads * kStageBlocks + 1;

shared uvec4 staged_weights[kTileOutputs * kOutputQuads];     // [output][block], bytes
shared uvec4 staged_rows[kRows * kRowQuads];                  // [row][block], bytes
shared float staged_scales[kStageBlocks * kTileOutputs];      // [block][output]
shared float row_scales[kStageBlocks * kRows];                // [block][row]
#ifndef HELIX_SCALE_ONE
shared float staged_second[kStageBlocks * kTileOutputs];
#endif
#ifdef HELIX_SCALE_MIN
shared float row_sums[kStageBlocks * kRows];
#endif
shared float results[kLanes / 32 * 256];  // a tile of each subgroup

#define Weights coopmat<int8_t, gl_ScopeSubgroup, 16, 32, gl_MatrixUseA>
#define Rows coopmat<int8_t, gl_ScopeSubgroup, 32, 16, gl_MatrixUseB>
#define Dots coopmat<int, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
#define Sums coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>

// Bytes that are 2^HELIX_OFFSET_BITS too large, as they are.
uvec4 without_offset(uvec4 bytes) {
#ifdef HELIX_OFFSET_BITS
    return (bytes + (0x80 - (1 << HELIX_OFFSET_BITS)) * 0x01010101) ^ 0x80808080;
#else
    return bytes;
#endif
}

// What a lane reads for a stage: all at once, so that it waits for memory once.
const uint kStageOutputs = kStageBlocks * kTileOutputs;
const uint kStageRowParts = 3 * kStageBlocks;  // of 16 bytes, as quantise_rows.comp makes them
const uint kStageParts = kRows * kStageRowParts;
const uint kOutputLoads = (kStageOutputs + kLanes - 1) / kLanes;
const uint kPartLoads = (kStageParts + kLanes - 1) / kLanes;

// What lies beyond the last row, panel or column is read from there, and added to sums that nobody stores.
void load_stage(RowTile tile, uint panel, uint panels, uint first, inout WeightHead heads[kOutputLoads],
                inout RawBlock raws[kOutputLoads], inout uvec4 parts[kPartLoads]) {
    const uint row_blocks = params.cols / 32;
    [[unroll]] for (uint n = 0; n < kOutputLoads; ++n) {
        const uint i = min(gl_LocalInvocationIndex + n * kLanes, kStageOutputs - 1);
        const uint output_ = i % kTileOutputs;
        const uint at = (panel + min(output_ / kPanelOutputs, panels - 1)) * params.panel_words;
        const uint block = min(first / 32 + i / kTileOutputs, row_blocks - 1);
        heads[n] = load_head(at, output_ % kPanelOutputs, block / 8);
        raws[n] = load_raw(at, output_ % kPanelOutputs, block);
    }
    [[unroll]] for (uint n = 0; n < kPartLoads; ++n) {
        const uint i = gl_LocalInvocationIndex + n * kLanes;
        const uint row = min(tile.first + i / kStageRowParts, tile.end - 1);
        const uint part = min(first / 32 * 3 + i % kStageRowParts, row_blocks * 3 - 1);
        parts[n] = params.input_.v[row * row_blocks * 3 + part];
    }
}

void store_output(uint i, uint first, WeightHead head, RawBlock raw) {
    const uint output_ = i % kTileOutputs;
    const uint block = i / kTileOutputs;
    const WeightBlock w = unpack_block(head, raw, output_ % kPanelOutputs, first / 32 + block);
    const uint quads = output_ * kOutputQuads + kBlockQuads * block;
#ifdef HELIX_SCALE_HALVES
    staged_weights[quads] = without_offset(w.lower);
    staged_weights[quads + 1] = uvec4(0);
    staged_weights[quads + 2] = uvec4(0);
    staged_weights[quads + 3] = without_offset(w.upper);
#else
    staged_weights[quads] = without_offset(w.lower);
    staged_weights[quads + 1] = without_offset(w.upper);
#endif
    staged_scales[i] = w.d;
#ifndef HELIX_SCALE_ONE
    staged_second[i] = w.d2;
#endif
}

void store_part(uint i, uvec4 quad) {
    const uint row = i / kStageRowParts;
    const uint block = i % kStageRowParts / 3;
    const uint part = i % 3;
    if (part < 2) {
        staged_rows[row * kRowQuads + 2 * block + part] = quad;
    } else {
        row_scales[block * kRows + row] = uintBitsToFloat(quad.z);
#ifdef HELIX_SCALE_MIN
        row_sums[block * kRows + row] = uintBitsToFloat(quad.w);
#endif
    }
}

void store_stage(uint first, WeightHead heads[kOutputLoads], RawBlock raws[kOutputLoads], uvec4 parts[kPartLoads]) {
    [[unroll]] for (uint n = 0; n < kOutputLoads; ++n) {
        const uint i = gl_LocalInvocationIndex + n * kLanes;
        if (i < kStageOutputs) store_output(i, first, heads[n], raws[n]);
    }
    [[unroll]] for (uint n = 0; n < kPartLoads; ++n) {
        const uint i = gl_LocalInvocationIndex + n * kLanes;
        if (i < kStageParts) store_part(i, parts[n]);
    }
}

void add_stage(uint panel, uint row_tile, uint first, inout Sums sums[kTilesEach]) {
    const uint blocks = min(kStageBlocks, (params.cols - first) / 32);
    for (uint block = 0; block < blocks; ++block) {
        Weights w[kPanelsEach];
        Sums d[kPanelsEach];
#ifdef HELIX_SCALE_HALVES
        Weights upper[kPanelsEach];
#endif
#ifndef HELIX_SCALE_ONE
        Sums d2[kPanelsEach];
#endif
        [[unroll]] for (uint p = 0; p < kPanelsEach; ++p) {
            const uint output_ = (panel + p) * kPanelOutputs;
            const uint quads = output_ * kOutputQuads + kBlockQuads * block;
            coopMatLoad(w[p], staged_weights, quads, kOutputQuads, gl_CooperativeMatrixLayoutRowMajor);
#ifdef HELIX_SCALE_HALVES
            coopMatLoad(upper[p], staged_weights, quads + 2, kOutputQuads, gl_CooperativeMatrixLayoutRowMajor);
#endif
            const uint scale = block * kTileOutputs + output_;
            coopMatLoad(d[p], staged_scales, scale, 0, gl_CooperativeMatrixLayoutColumnMajor);
#ifndef HELIX_SCALE_ONE
            coopMatLoad(d2[p], staged_second, scale, 0, gl_CooperativeMatrixLayoutColumnMajor);
#endif
        }
        [[unroll]] for (uint r = 0; r < kRowsEach; ++r) {
            const uint row = (row_tile + r) * 16;
            Rows x;
            coopMatLoad(x, staged_rows, row * kRowQuads + 2 * block, kRowQuads,
                        gl_CooperativeMatrixLayoutColumnMajor);
            Sums scales;
            coopMatLoad(scales, row_scales, block * kRows + row, 0, gl_CooperativeMatrixLayoutRowMajor);
#ifdef HELIX_SCALE_MIN
            Sums x_sums;
            coopMatLoad(x_sums, row_sums, block * kRows + row, 0, gl_CooperativeMatrixLayoutRowMajor);
#endif
            [[unroll]] for (uint p = 0; p < kPanelsEach; ++p) {
                const uint at = p * kRowsEach + r;
                Dots exact = Dots(0);
                exact = coopMatMulAdd(w[p], x, exact);
                Sums dots = Sums(exact);
#ifdef HELIX_SCALE_HALVES
                Dots exact_upper = Dots(0);
                exact_upper = coopMatMulAdd(upper[p], x, exact_upper);
                Sums upper_dots = Sums(exact_upper);
#endif
                [[unroll]] for (uint e = 0; e < sums[at].length(); ++e) {
#ifdef HELIX_SCALE_HALVES
                    precise const float lower = dots[e] * d[p][e];
                    precise const float both = fma_exact(upper_dots[e], d2[p][e], lower);
                    sums[at][e] = fma_exact(both, scales[e], sums[at][e]);
#else
                    precise const float scale = d[p][e] * scales[e];
                    float sum = fma_exact(dots[e], scale, sums[at][e]);
#ifdef HELIX_SCALE_MIN
                    sum = fma_exact(x_sums[e], d2[p][e], sum);
#endif
                    sums[at][e] = sum;
#endif
                }
            }
        }
    }
}

void store_tile(Sums totals, uint first_row, uint rows, uint first_column) {
    const uint begin = gl_SubgroupID * 256;
    subgroupBarrier();  // of a tile before
    coopMatStore(totals, results, begin, 16, gl_CooperativeMatrixLayoutColumnMajor);
    subgroupBarrier();
    for (uint i = gl_SubgroupInvocationID; i < 256; i += gl_SubgroupSize) {
        const uint row = first_row + i / 16;
        const uint column = first_column + i % 16;
        if (row < rows && column < params.outputs) store_total(results[begin + i], row, column);
    }
}

void main() {
    const RowTile tile = find_tile(gl_WorkGroupID.x);
    if (tile.first >= tile.end) return;
    const uint panels = (params.outputs + kPanelOutputs - 1) / kPanelOutputs;
    const uint first_panel = gl_WorkGroupID.y * kPanels;
    const uint panel = gl_SubgroupID / kRowParts * kPanelsEach;
    const uint row_tile = gl_SubgroupID % kRowParts * kRowsEach;
    const bool adds = panel < kPanels;

    Sums sums[kTilesEach];
    precise Sums totals[kTilesEach];
    [[unroll]] for (uint i = 0; i < kTilesEach; ++i) {
        sums[i] = Sums(0.0);
        totals[i] = Sums(0.0);
    }
    WeightHead heads[kOutputLoads];
    RawBlock raws[kOutputLoads];
    uvec4 parts[kPartLoads];
    const uint first_of_expert = tile.expert * panels + first_panel;
    load_stage(tile, first_of_expert, panels - first_panel, 0, heads, raws, parts);
    for (uint first = 0; first < params.cols; first += kStageColumns) {
        barrier();  // the stage before has been added
        store_stage(first, heads, raws, parts);
        barrier();
        if (first + kStageColumns < params.cols)
            load_stage(tile, first_of_expert, panels - first_panel, first + kStageColumns, heads, raws, parts);
        if (adds) add_stage(panel, row_tile, first, sums);
        const uint end = first + kStageColumns;
        if (end % kSegmentColumns != 0 && end < params.cols) continue;
        [[unroll]] for (uint i = 0; i < kTilesEach; ++i) {
            totals[i] = totals[i] + sums[i];
            sums[i] = Sums(0.0);
        }
    }
    if (!adds) return;
    [[unroll]] for (uint p = 0; p < kPanelsEach; ++p) {
        [[unroll]] for (uint r = 0; r < kRowsEach; ++r)
            store_tile(totals[p * kRowsEach + r], tile.first + 16 * (row_tile + r), tile.end,
                       (first_panel + panel + p) * kPanelOutputs);
    }
}
