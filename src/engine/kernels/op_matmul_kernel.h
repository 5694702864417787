// Matrix times rows, for every format. Included in a variant's namespace (see op_variants.h).
//
// Quantised: for each block of 32 columns the sum of byte products is an exact int32; its float
// value times (weight scale * activation scale) is added by one fma. Float: one fma per column.
// Both in segments of kSegmentColumns or kFloatSegmentColumns columns: each is summed from zero,
// and its sum added to the total. All in ascending order, so a result depends on its row alone.
// docs/numerics.md has the definition.

HELIX_INLINE void store_result(Floats result, std::int64_t row, std::int64_t first,
                               std::int64_t n_rows, const MatmulOutput& output) {
    result = mul(result, set1(output.factor));
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

constexpr std::int64_t kSegmentBlocks = kSegmentColumns / 32;

// Rows [row, row + kRows) times one panel.
template <class Format, int kRows>
void quantised_panel(const PackedMatrix& matrix, std::int64_t panel, const std::byte* weights,
                     const MatmulInput& input, std::int64_t row, std::int64_t ahead,
                     const MatmulOutput& output) {
    static_assert(kSegmentBlocks % Format::kBlocks == 0);
    const std::int64_t row_blocks = matrix.cols() / 32;
    QuantisedTile<kRows> tile;
    tile.ahead = ahead;
    Array<Floats, kRows> total;
    HELIX_UNROLL
    for (int r = 0; r < kRows; ++r) {
        tile.row[r] = input.quantised + (row + r) * row_blocks;
        total[r] = set1(0.0F);
    }
    const std::byte* p = weights;
    for (std::int64_t first = 0; first < row_blocks; first += kSegmentBlocks) {
        const std::int64_t end =
            first + kSegmentBlocks < row_blocks ? first + kSegmentBlocks : row_blocks;
        Array<Floats, kRows> sum;
        HELIX_UNROLL
        for (int r = 0; r < kRows; ++r) sum[r] = set1(0.0F);
        for (std::int64_t b = first; b < end; b += Format::kBlocks, p += Format::kUnitBytes) {
            Format::add_unit(p, tile, sum);
            HELIX_UNROLL
            for (int r = 0; r < kRows; ++r) tile.row[r] += Format::kBlocks;
        }
        HELIX_UNROLL
        for (int r = 0; r < kRows; ++r) total[r] = add(total[r], sum[r]);
    }
    HELIX_UNROLL
    for (int r = 0; r < kRows; ++r)
        store_result(total[r], row + r, panel * 16, matrix.rows(), output);
}

// weights: what panel_weights() gives of the panel.
using PanelKernel = void (*)(const PackedMatrix& matrix, std::int64_t panel,
                             const std::byte* weights, const MatmulInput& input, std::int64_t row,
                             std::int64_t ahead, const MatmulOutput& output);

// The panel kernels for 1, 2, ... kMaxRows rows.
template <class Format, int... kLess>
const PanelKernel* panel_kernels(std::integer_sequence<int, kLess...>) {
    static constexpr PanelKernel kKernels[] = {quantised_panel<Format, kLess + 1>...};
    return kKernels;
}

// Rows are taken in tiles of as equal sizes as can be; kernels: for tiles of 1, 2, ... kMaxRows
// rows of row_bytes.
template <class Format>
void tiled_matmul(const PanelKernel* kernels, std::int64_t row_bytes, const PackedMatrix& matrix,
                  std::int64_t begin, std::int64_t end, const MatmulInput& input,
                  const MatmulOutput& output) {
    const std::int64_t tiles = (input.rows + kMaxRows - 1) / kMaxRows;
    const std::int64_t together = kRowsBytes / (kMaxRows * row_bytes) + 1;
    const auto first_row = [&](std::int64_t tile) { return tile * input.rows / tiles; };
    for (std::int64_t first = 0; first < tiles; first += together) {
        const std::int64_t last = first + together < tiles ? first + together : tiles;
        for (std::int64_t panel = begin; panel < end; ++panel) {
            const std::byte* weights = panel_weights<Format>(matrix, panel);
            for (std::int64_t tile = first; tile < last; ++tile) {
                const std::int64_t row = first_row(tile);
                const std::int64_t rows = first_row(tile + 1) - row;
                kernels[rows - 1](matrix, panel, weights, input, row,
                                  tile == first ? kFetchAhead : 0, output);
            }
        }
    }
}

template <class Format>
void quantised_matmul(const PackedMatrix& matrix, std::int64_t begin, std::int64_t end,
                      const MatmulInput& input, const MatmulOutput& output) {
    const std::int64_t row_bytes =
        matrix.cols() / 32 * static_cast<std::int64_t>(sizeof(QuantisedBlock));
    tiled_matmul<Format>(panel_kernels<Format>(std::make_integer_sequence<int, kMaxRows>()),
                         row_bytes, matrix, begin, end, input, output);
}

// Formats of floats: their columns lie one after the other, kColumnBytes each; before every
// kFloatSegmentColumns there are kScaleBytes, which scaled() makes of a segment's sum what is
// added.
struct Unscaled {
    static constexpr int kScaleBytes = 0;
    HELIX_INLINE static Floats scaled(Floats sum, const std::byte*) { return sum; }
};
struct F32 : Unscaled {
    static constexpr int kColumnBytes = 64;
    HELIX_INLINE static Floats load_column(const std::byte* p) { return load_float(p); }
};
struct F16 : Unscaled {
    static constexpr int kColumnBytes = 32;
    HELIX_INLINE static Floats load_column(const std::byte* p) { return load_half(p); }
};
struct Bf16 : Unscaled {
    static constexpr int kColumnBytes = 32;
    HELIX_INLINE static Floats load_column(const std::byte* p) { return load_bfloat(p); }
};
struct Fp8 {
    static constexpr int kScaleBytes = 64;
    static constexpr int kColumnBytes = 16;
    HELIX_INLINE static Floats load_column(const std::byte* p) { return load_fp8(p); }
    HELIX_INLINE static Floats scaled(Floats sum, const std::byte* scales) {
        return mul(sum, load_float(scales));
    }
};

template <class Format>
constexpr int segment_bytes() {
    return Format::kScaleBytes + kFloatSegmentColumns * Format::kColumnBytes;
}

// Sums of few rows are long chains of additions that each wait for the last: two run at once.
constexpr int sums_at_once(int rows) {
    return 2 * rows <= kMaxRows ? 2 : 1;
}

// Rows of floats, each at the column that comes next, and the panel's weights of that column.
template <int kRows>
struct FloatTile {
    static constexpr bool kFetchesAhead = fetches_ahead(kRows);
    Array<const float*, kRows> row;
    const std::byte* w;
    std::int64_t ahead;
};

// Adds kSums sums of kFloatSegmentColumns columns each to the totals, one after the other.
template <class Format, int kSums, int kRows>
HELIX_INLINE void add_sums(const FloatTile<kRows>& x, Array<Floats, kRows>& total) {
    constexpr int kLine = 64 / Format::kColumnBytes;
    Array<Floats, kSums * kRows> sum;
    HELIX_UNROLL
    for (int i = 0; i < kSums * kRows; ++i) sum[i] = set1(0.0F);
    for (int column = 0; column < kFloatSegmentColumns; column += kLine) {
        HELIX_UNROLL
        for (int s = 0; s < kSums; ++s) {
            const std::byte* p = x.w + s * segment_bytes<Format>() + Format::kScaleBytes +
                                 column * Format::kColumnBytes;
            const int first = s * kFloatSegmentColumns + column;
            fetch_ahead<64>(p, x);
            HELIX_UNROLL
            for (int c = 0; c < kLine; ++c) {
                const Floats w = Format::load_column(p + c * Format::kColumnBytes);
                HELIX_UNROLL
                for (int r = 0; r < kRows; ++r)
                    sum[s * kRows + r] = fma(w, set1(x.row[r][first + c]), sum[s * kRows + r]);
            }
        }
    }
    HELIX_UNROLL
    for (int s = 0; s < kSums; ++s) {
        HELIX_UNROLL
        for (int r = 0; r < kRows; ++r) {
            const Floats scaled =
                Format::scaled(sum[s * kRows + r], x.w + s * segment_bytes<Format>());
            total[r] = add(total[r], scaled);
        }
    }
}

// Adds the sum of the last columns, fewer than kFloatSegmentColumns.
template <class Format, int kRows>
HELIX_INLINE void add_rest(const FloatTile<kRows>& x, std::int64_t columns,
                           Array<Floats, kRows>& total) {
    Array<Floats, kRows> sum;
    HELIX_UNROLL
    for (int r = 0; r < kRows; ++r) sum[r] = set1(0.0F);
    for (std::int64_t c = 0; c < columns; ++c) {
        const Floats w = Format::load_column(x.w + c * Format::kColumnBytes);
        HELIX_UNROLL
        for (int r = 0; r < kRows; ++r) sum[r] = fma(w, set1(x.row[r][c]), sum[r]);
    }
    HELIX_UNROLL
    for (int r = 0; r < kRows; ++r) total[r] = add(total[r], sum[r]);
}

// Rows [row, row + kRows) times one panel.
template <class Format, int kRows>
void float_panel(const PackedMatrix& matrix, std::int64_t panel, const std::byte* weights,
                 const MatmulInput& input, std::int64_t row, std::int64_t ahead,
                 const MatmulOutput& output) {
    FloatTile<kRows> x;
    x.w = weights;
    x.ahead = ahead;
    Array<Floats, kRows> total;
    HELIX_UNROLL
    for (int r = 0; r < kRows; ++r) {
        x.row[r] = input.floats + (row + r) * matrix.cols();
        total[r] = set1(0.0F);
    }
    const auto advance = [&x](int segments) {
        x.w += segments * segment_bytes<Format>();
        HELIX_UNROLL
        for (int r = 0; r < kRows; ++r) x.row[r] += segments * kFloatSegmentColumns;
    };
    constexpr int kSums = sums_at_once(kRows);
    std::int64_t left = matrix.cols();
    for (; left >= kSums * kFloatSegmentColumns; left -= kSums * kFloatSegmentColumns) {
        add_sums<Format, kSums>(x, total);
        advance(kSums);
    }
    for (; left >= kFloatSegmentColumns; left -= kFloatSegmentColumns) {
        add_sums<Format, 1>(x, total);
        advance(1);
    }
    if constexpr (Format::kScaleBytes == 0) {  // others have whole segments
        if (left > 0) add_rest<Format>(x, left, total);
    }
    HELIX_UNROLL
    for (int r = 0; r < kRows; ++r)
        store_result(total[r], row + r, panel * 16, matrix.rows(), output);
}

template <class Format, int... kLess>
const PanelKernel* float_kernels(std::integer_sequence<int, kLess...>) {
    static constexpr PanelKernel kKernels[] = {float_panel<Format, kLess + 1>...};
    return kKernels;
}

// One row times four panels, in four streams: memory is read faster so than in one stream that is
// fetched ahead.
template <class Format>
void float_row(const PackedMatrix& matrix, std::int64_t panel, const float* x,
               const MatmulOutput& output) {
    const std::int64_t cols = matrix.cols();
    Array<Floats, 4> total;
    Array<const std::byte*, 4> segment;
    HELIX_UNROLL
    for (int p = 0; p < 4; ++p) {
        total[p] = set1(0.0F);
        segment[p] = matrix.panel(panel + p);
    }
    for (std::int64_t first = 0; first < cols; first += kFloatSegmentColumns) {
        const std::int64_t end =
            first + kFloatSegmentColumns < cols ? first + kFloatSegmentColumns : cols;
        Array<Floats, 4> sum;
        HELIX_UNROLL
        for (int p = 0; p < 4; ++p) sum[p] = set1(0.0F);
        for (std::int64_t c = first; c < end; ++c) {
            HELIX_UNROLL
            for (int p = 0; p < 4; ++p) {
                const Floats w = Format::load_column(segment[p] + Format::kScaleBytes +
                                                     (c - first) * Format::kColumnBytes);
                sum[p] = fma(w, set1(x[c]), sum[p]);
            }
        }
        HELIX_UNROLL
        for (int p = 0; p < 4; ++p) {
            total[p] = add(total[p], Format::scaled(sum[p], segment[p]));
            segment[p] += segment_bytes<Format>();
        }
    }
    HELIX_UNROLL
    for (int p = 0; p < 4; ++p) store_result(total[p], 0, (panel + p) * 16, matrix.rows(), output);
}

template <class Format>
void float_matmul(const PackedMatrix& matrix, std::int64_t begin, std::int64_t end,
                  const MatmulInput& input, const MatmulOutput& output) {
    if (input.rows == 1) {
        for (; begin + 4 <= end; begin += 4) float_row<Format>(matrix, begin, input.floats, output);
    }
    tiled_matmul<Format>(float_kernels<Format>(std::make_integer_sequence<int, kMaxRows>()),
                         matrix.cols() * static_cast<std::int64_t>(sizeof(float)), matrix, begin,
                         end, input, output);
}
