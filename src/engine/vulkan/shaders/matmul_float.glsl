// Segments of matmul with float weights: one fma for each column. Included after what gives
//   kUnitColumns, and void load_unit(uint at, out float w[kUnitColumns])
// the columns of one output that lie in four words at word `at`; and with HELIX_SEGMENT_SCALES
//   float load_segment_scale(uint panel, uint lane, uint segment)
// what the sum of a whole segment is multiplied by.

const uint kSegmentColumns = 64;

#extension GL_EXT_control_flow_attributes : require

// A unit of one row, 16 bytes of the row at a time: `at` counts these.
float add_unit(float sum, float w[kUnitColumns], uint at) {
    [[unroll]] for (uint part = 0; part < kUnitColumns / 4; ++part) {
        const vec4 x = uintBitsToFloat(params.input_.v[at + part]);
        [[unroll]] for (uint i = 0; i < 4; ++i) sum = fma_exact(w[4 * part + i], x[i], sum);
    }
    return sum;
}

void add_segment(uint panel, uint lane, uint first, uint end, uint row, uint end_row, inout float sums[kMaxRows]) {
    Floats x = Floats(params.input_);
    for (uint column = first; column < end; column += kUnitColumns) {
        float w[kUnitColumns];
        load_unit(panel + 64 * (column / kUnitColumns) + 4 * lane, w);
        const uint n = min(kUnitColumns, end - column);
        const bool is_whole = n == kUnitColumns && params.cols % 4 == 0;
        for (uint r = 0; r < kRows; ++r) {
            if (row + r >= end_row) break;
            const uint at = (row + r) * params.cols + column;
            if (is_whole) {
                sums[r] = add_unit(sums[r], w, at / 4);
            } else {
                for (uint i = 0; i < n; ++i) sums[r] = fma_exact(w[i], x.v[at + i], sums[r]);
            }
        }
    }
#ifdef HELIX_SEGMENT_SCALES
    const float scale = load_segment_scale(panel, lane, first / kSegmentColumns);
    for (uint r = 0; r < kRows; ++r) {
        precise const float scaled = sums[r] * scale;
        sums[r] = scaled;
    }
#endif
}
