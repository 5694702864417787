// Matrix times rows, for every format. Included in a variant's namespace (see op_variants.h).
//
// Quantised: for each unit of 32 columns the sum of byte products is an exact int32; its float
// value times (weight scale * activation scale) is added by one fma. Float: one fma per column;
// after every 64 columns the partial sum is added to the total. Both in ascending order, so a
// result depends on its row alone.

HELIX_INLINE void store_result(Floats result, std::int64_t row, std::int64_t first,
                               std::int64_t n_rows, const MatmulOutput& output) {
    float* at = output.data + row * output.stride + first;
    const std::int64_t left = n_rows - first;
    if (left >= 16) {
        store(at, output.accumulate ? add(load(at), result) : result);
        return;
    }
    const int n = static_cast<int>(left);
    store_first(at, n, output.accumulate ? add(load_first(at, n, 0.0F), result) : result);
}

// Bytes of weights that are on their way from memory while others are in use.
constexpr std::int64_t kFetchAhead = 16384;
// Activations that are multiplied by one panel after the other: they stay in the second cache.
constexpr std::int64_t kRowsBytes = 256 << 10;

// Rows [row, row + kRows) times one panel.
template <class Format, int kRows>
void quantised_panel(const PackedMatrix& matrix, std::int64_t panel, const MatmulInput& input,
                     std::int64_t row, std::int64_t ahead, const MatmulOutput& output) {
    const std::int64_t row_blocks = matrix.cols() / 32;
    QuantisedTile<kRows> tile;
    tile.ahead = ahead;
    Array<Floats, kRows> total;
    HELIX_UNROLL
    for (int r = 0; r < kRows; ++r) {
        tile.row[r] = input.quantised + (row + r) * row_blocks;
        total[r] = set1(0.0F);
    }
    const std::byte* p = matrix.panel(panel);
    for (std::int64_t b = 0; b < row_blocks; b += Format::kBlocks, p += Format::kUnitBytes) {
        Format::add_unit(p, tile, total);
        HELIX_UNROLL
        for (int r = 0; r < kRows; ++r) tile.row[r] += Format::kBlocks;
    }
    HELIX_UNROLL
    for (int r = 0; r < kRows; ++r)
        store_result(total[r], row + r, panel * 16, matrix.rows(), output);
}

using PanelKernel = void (*)(const PackedMatrix& matrix, std::int64_t panel,
                             const MatmulInput& input, std::int64_t row, std::int64_t ahead,
                             const MatmulOutput& output);

// The panel kernels for 1, 2, ... kMaxRows rows.
template <class Format, int... kLess>
const PanelKernel* panel_kernels(std::integer_sequence<int, kLess...>) {
    static constexpr PanelKernel kKernels[] = {quantised_panel<Format, kLess + 1>...};
    return kKernels;
}

// Rows are taken in tiles of as equal sizes as can be.
template <class Format>
void quantised_matmul(const PackedMatrix& matrix, std::int64_t begin, std::int64_t end,
                      const MatmulInput& input, const MatmulOutput& output) {
    const PanelKernel* kernels = panel_kernels<Format>(std::make_integer_sequence<int, kMaxRows>());
    const std::int64_t row_bytes =
        matrix.cols() / 32 * static_cast<std::int64_t>(sizeof(QuantisedBlock));
    const std::int64_t tiles = (input.rows + kMaxRows - 1) / kMaxRows;
    const std::int64_t together = kRowsBytes / (kMaxRows * row_bytes) + 1;
    const auto first_row = [&](std::int64_t tile) { return tile * input.rows / tiles; };
    for (std::int64_t first = 0; first < tiles; first += together) {
        const std::int64_t last = first + together < tiles ? first + together : tiles;
        for (std::int64_t panel = begin; panel < end; ++panel) {
            for (std::int64_t tile = first; tile < last; ++tile) {
                const std::int64_t row = first_row(tile);
                const std::int64_t rows = first_row(tile + 1) - row;
                kernels[rows - 1](matrix, panel, input, row, tile == first ? kFetchAhead : 0,
                                  output);
            }
        }
    }
}

struct F32 {
    static constexpr int kColumnBytes = 64;
    HELIX_INLINE static Floats load_column(const std::byte* p) { return load_float(p); }
};
struct F16 {
    static constexpr int kColumnBytes = 32;
    HELIX_INLINE static Floats load_column(const std::byte* p) { return load_half(p); }
};
struct Bf16 {
    static constexpr int kColumnBytes = 32;
    HELIX_INLINE static Floats load_column(const std::byte* p) { return load_bfloat(p); }
};

// kPanels panels times kRows rows; several of either keep the adder busy.
template <class Format, int kPanels, int kRows>
void float_panels(const PackedMatrix& matrix, std::int64_t panel, const float* x, std::int64_t row,
                  const MatmulOutput& output) {
    const std::int64_t cols = matrix.cols();
    Array<Floats, kPanels * kRows> total;
    HELIX_UNROLL
    for (int i = 0; i < kPanels * kRows; ++i) total[i] = set1(0.0F);
    for (std::int64_t chunk = 0; chunk < cols; chunk += 64) {
        const std::int64_t chunk_end = chunk + 64 < cols ? chunk + 64 : cols;
        Array<Floats, kPanels * kRows> part;
        HELIX_UNROLL
        for (int i = 0; i < kPanels * kRows; ++i) part[i] = set1(0.0F);
        for (std::int64_t c = chunk; c < chunk_end; ++c) {
            HELIX_UNROLL
            for (int p = 0; p < kPanels; ++p) {
                const Floats w =
                    Format::load_column(matrix.panel(panel + p) + c * Format::kColumnBytes);
                HELIX_UNROLL
                for (int r = 0; r < kRows; ++r)
                    part[p * kRows + r] =
                        fma(w, set1(x[(row + r) * cols + c]), part[p * kRows + r]);
            }
        }
        HELIX_UNROLL
        for (int i = 0; i < kPanels * kRows; ++i) total[i] = add(total[i], part[i]);
    }
    HELIX_UNROLL
    for (int p = 0; p < kPanels; ++p) {
        HELIX_UNROLL
        for (int r = 0; r < kRows; ++r)
            store_result(total[p * kRows + r], row + r, (panel + p) * 16, matrix.rows(), output);
    }
}

template <class Format>
void float_matmul(const PackedMatrix& matrix, std::int64_t begin, std::int64_t end,
                  const MatmulInput& input, const MatmulOutput& output) {
    for (std::int64_t panel = begin; panel < end;) {
        const bool four = panel + 4 <= end;
        std::int64_t row = 0;
        for (; !four && row + 4 <= input.rows; row += 4)
            float_panels<Format, 1, 4>(matrix, panel, input.floats, row, output);
        if constexpr (kMaxRows >= 8) {
            for (; four && row + 2 <= input.rows; row += 2)
                float_panels<Format, 4, 2>(matrix, panel, input.floats, row, output);
        }
        for (; row < input.rows; ++row) {
            if (four) {
                float_panels<Format, 4, 1>(matrix, panel, input.floats, row, output);
            } else {
                float_panels<Format, 1, 1>(matrix, panel, input.floats, row, output);
            }
        }
        panel += four ? 4 : 1;
    }
}
