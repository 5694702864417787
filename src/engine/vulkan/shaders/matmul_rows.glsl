// Which rows and outputs a workgroup of matmul computes, and where they go. Included by matmul.glsl and
// matmul_tiled.glsl.

const uint kPanelOutputs = 16;

// The tile's rows are [first, end) of the input, for this expert's matrix.
struct RowTile {
    uint first;
    uint end;
    uint expert;
};

// Tiles are counted expert by expert. first == end: there are not so many.
RowTile find_tile(uint tile) {
    if (params.experts == 0) return RowTile(tile * kRows, params.rows, 0);
    uint begin = uint(params.first_visit.v[0]);
    for (uint e = 0; e < params.experts; ++e) {
        const uint end = uint(params.first_visit.v[e + 1]);
        const uint tiles = (end - begin + kRows - 1) / kRows;
        if (tile < tiles) return RowTile(begin + tile * kRows, end, e);
        tile -= tiles;
        begin = end;
    }
    return RowTile(0, 0, 0);
}

void store_total(float total, uint row, uint column) {
    const uint at = row * params.outputs + column;
    precise float result = total;
    if (params.accumulate != 0) result = params.y.v[at] + total;
    params.y.v[at] = result;
}
