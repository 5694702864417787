// Matrix times rows, for every format. Included in a variant's namespace (see op_variants.h).
//
// Quantised: for each unit of 32 columns the sum of byte products is an exact int32; its float
// value times (weight scale * activation scale) is added by one fma. Float: one fma per column;
// after every 64 columns the partial sum is added to the total. Both in ascending order, so a
// result depends on its row alone.

// Rows of one call of a panel kernel.
template <int kRows>
struct QuantisedTile {
    Array<const std::int8_t*, kRows> q;
    Array<const float*, kRows> scale;
    Array<const std::int32_t*, kRows> sum16;

    HELIX_INLINE std::int32_t sum32(int row, std::int64_t unit32) const {
        return sum16[row][2 * unit32] + sum16[row][2 * unit32 + 1];
    }
};

struct Q8_0 {
    static constexpr int kUnitBytes = 544;
    static constexpr int kBlocks = 1;  // of 32 columns in a unit
    template <int kRows>
    HELIX_INLINE static void add_unit(const std::byte* p, const QuantisedTile<kRows>& x,
                                      std::int64_t b, Array<Floats, kRows>& total) {
        const Floats d = load_half(p);
        Bytes w[8];
        HELIX_UNROLL
        for (int g = 0; g < 8; ++g) w[g] = load_bytes(p + 32 + 64 * g);
        HELIX_UNROLL
        for (int r = 0; r < kRows; ++r) {
            const std::int8_t* q = x.q[r] + 32 * b;
            Ints even = set1(-128 * x.sum32(r, b));
            Ints odd = set1(0);
            HELIX_UNROLL
            for (int g = 0; g < 8; g += 2) {
                even = dot4(even, w[g], q + 4 * g);
                odd = dot4(odd, w[g + 1], q + 4 * g + 4);
            }
            total[r] = fma(to_floats(add(even, odd)), mul(d, set1(x.scale[r][b])), total[r]);
        }
    }
};

HELIX_INLINE void load_nibbles(const std::byte* p, Bytes (&w)[8]) {
    HELIX_UNROLL
    for (int v = 0; v < 4; ++v) {
        const Bytes both = load_bytes(p + 64 * v);
        w[v] = shift_right_and<0>(both, 15);
        w[v + 4] = shift_right_and<4>(both, 15);
    }
}

// Exact sum of bytes below 128 times 32 activations.
HELIX_INLINE Ints dot32_small(Ints start, const Bytes (&w)[8], const std::int8_t* q) {
    Ints odd = set1(0);
    HELIX_UNROLL
    for (int g = 0; g < 8; g += 2) {
        start = dot4_small(start, w[g], q + 4 * g);
        odd = dot4_small(odd, w[g + 1], q + 4 * g + 4);
    }
    return add(start, odd);
}

struct Q4_0 {
    static constexpr int kUnitBytes = 288;
    static constexpr int kBlocks = 1;
    template <int kRows>
    HELIX_INLINE static void add_unit(const std::byte* p, const QuantisedTile<kRows>& x,
                                      std::int64_t b, Array<Floats, kRows>& total) {
        const Floats d = load_half(p);
        Bytes w[8];
        load_nibbles(p + 32, w);
        HELIX_UNROLL
        for (int r = 0; r < kRows; ++r) {
            const Ints sum = dot32_small(set1(-8 * x.sum32(r, b)), w, x.q[r] + 32 * b);
            total[r] = fma(to_floats(sum), mul(d, set1(x.scale[r][b])), total[r]);
        }
    }
};

struct Q4_K {
    static constexpr int kUnitBytes = 64 + 8 * 288;
    static constexpr int kBlocks = 8;
    template <int kRows>
    HELIX_INLINE static void add_unit(const std::byte* p, const QuantisedTile<kRows>& x,
                                      std::int64_t b0, Array<Floats, kRows>& total) {
        const Floats d = load_half(p);
        const Floats dmin = load_half(p + 32);
        for (int j = 0; j < 8; ++j) {
            const std::byte* eighth = p + 64 + 288 * j;
            const Floats scale = mul(d, to_floats(load_u8(eighth)));
            const Floats min = mul(dmin, to_floats(load_u8(eighth + 16)));
            Bytes w[8];
            load_nibbles(eighth + 32, w);
            HELIX_UNROLL
            for (int r = 0; r < kRows; ++r) {
                const std::int64_t b = b0 + j;
                const float x_scale = x.scale[r][b];
                const Ints sum = dot32_small(set1(0), w, x.q[r] + 32 * b);
                total[r] = fma(to_floats(sum), mul(scale, set1(x_scale)), total[r]);
                const float x_sum = -x_scale * static_cast<float>(x.sum32(r, b));
                total[r] = fma(set1(x_sum), min, total[r]);
            }
        }
    }
};

struct Q6_K {
    static constexpr int kUnitBytes = 32 + 8 * 416;
    static constexpr int kBlocks = 8;

    HELIX_INLINE static void load_weights(const std::byte* p, Bytes (&w)[8]) {
        load_nibbles(p, w);
        HELIX_UNROLL
        for (int v = 0; v < 2; ++v) {
            const Bytes high = load_bytes(p + 256 + 64 * v);
            w[4 * v] = bit_or(w[4 * v], and_shift_left<4>(high, 3));
            w[4 * v + 1] = bit_or(w[4 * v + 1], and_shift_left<2>(high, 12));
            w[4 * v + 2] = bit_or(w[4 * v + 2], shift_right_and<0>(high, 48));
            w[4 * v + 3] = bit_or(w[4 * v + 3], shift_right_and<2>(high, 48));
        }
    }

    template <int kRows>
    HELIX_INLINE static void add_unit(const std::byte* p, const QuantisedTile<kRows>& x,
                                      std::int64_t b0, Array<Floats, kRows>& total) {
        const Floats d = load_half(p);
        for (int j = 0; j < 8; ++j) {
            const std::byte* eighth = p + 32 + 416 * j;
            const Ints scale_low = load_i8(eighth);
            const Ints scale_high = load_i8(eighth + 16);
            Bytes w[8];
            load_weights(eighth + 32, w);
            HELIX_UNROLL
            for (int r = 0; r < kRows; ++r) {
                const std::int64_t b = b0 + j;
                const std::int8_t* q = x.q[r] + 32 * b;
                Ints low = set1(-32 * x.sum16[r][2 * b]);
                Ints high = set1(-32 * x.sum16[r][2 * b + 1]);
                HELIX_UNROLL
                for (int g = 0; g < 4; ++g) {
                    low = dot4_small(low, w[g], q + 4 * g);
                    high = dot4_small(high, w[g + 4], q + 16 + 4 * g);
                }
                // |sum| < 2^24: exact as a float.
                const Ints sum = add(mul(low, scale_low), mul(high, scale_high));
                total[r] = fma(to_floats(sum), mul(d, set1(x.scale[r][b])), total[r]);
            }
        }
    }
};

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

template <class Format, int kRows>
void quantised_panel(const PackedMatrix& matrix, std::int64_t panel, const QuantisedRows& x,
                     std::int64_t row, const MatmulOutput& output) {
    const std::int64_t cols = matrix.cols();
    QuantisedTile<kRows> tile;
    HELIX_UNROLL
    for (int r = 0; r < kRows; ++r) {
        tile.q[r] = x.q + (row + r) * cols;
        tile.scale[r] = x.scale + (row + r) * (cols / 32);
        tile.sum16[r] = x.sum16 + (row + r) * (cols / 16);
    }
    Array<Floats, kRows> total;
    HELIX_UNROLL
    for (int r = 0; r < kRows; ++r) total[r] = set1(0.0F);
    const std::byte* p = matrix.panel(panel);
    for (std::int64_t b = 0; b < cols / 32; b += Format::kBlocks, p += Format::kUnitBytes) {
        if constexpr (kRows == 1) {
            for (int line = 0; line < Format::kUnitBytes; line += 64)
                __builtin_prefetch(p + 4096 + line);
        }
        Format::template add_unit<kRows>(p, tile, b, total);
    }
    HELIX_UNROLL
    for (int r = 0; r < kRows; ++r)
        store_result(total[r], row + r, panel * 16, matrix.rows(), output);
}

template <class Format>
void quantised_matmul(const PackedMatrix& matrix, std::int64_t begin, std::int64_t end,
                      const MatmulInput& input, const MatmulOutput& output) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
        std::int64_t row = 0;
        if constexpr (kMaxRows >= 8) {
            for (; row + 8 <= input.rows; row += 8)
                quantised_panel<Format, 8>(matrix, panel, input.quantised, row, output);
        }
        for (; row + 4 <= input.rows; row += 4)
            quantised_panel<Format, 4>(matrix, panel, input.quantised, row, output);
        for (; row + 2 <= input.rows; row += 2)
            quantised_panel<Format, 2>(matrix, panel, input.quantised, row, output);
        if (row < input.rows)
            quantised_panel<Format, 1>(matrix, panel, input.quantised, row, output);
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
