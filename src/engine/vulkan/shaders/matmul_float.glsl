// Segments of matmul with float weights: one fma for each column. Included after what gives
//   kUnitColumns, and void load_unit(uint at, out float w[kUnitColumns])
// the columns of one output that lie in four words at word `at`.

const uint kSegmentColumns = 64;

void add_segment(uint panel, uint lane, uint first, uint end, uint row, uint end_row, inout float sums[kMaxRows]) {
    Floats x = Floats(params.input_);
    for (uint column = first; column < end; column += kUnitColumns) {
        float w[kUnitColumns];
        load_unit(panel + 64 * (column / kUnitColumns) + 4 * lane, w);
        const uint n = min(kUnitColumns, end - column);
        for (uint r = 0; r < kRows; ++r) {
            if (row + r >= end_row) break;
            const uint at = (row + r) * params.cols + column;
            for (uint i = 0; i < n; ++i) sums[r] = fma_exact(w[i], x.v[at + i], sums[r]);
        }
    }
}
