// Matrix times many rows with a unit that multiplies tiles of bytes. Included in a variant's
// namespace after op_matmul_kernel.h; `Tiles` is AmxTiles (tiles_amx.h) or, in tests, a plain
// program that does the same.
//
// A panel's blocks are unpacked to signed bytes, once for many rows. For 16 rows, one product of
// tiles gives the exact sums of a block of 32 columns (or half of one), which are scaled and added
// as op_quantised_formats.h does it: the same operations on the same numbers in the same order.

// 32 columns of a panel.
struct alignas(64) UnpackedBlock {
    std::int8_t w[512];  // [8][16 outputs][4 columns]
    float scale[16];     // of all columns, or of the lower half
    float second[16];    // the mins, or the scales of the upper half
    float mins[2][16];   // of both halves
};

// What add_unit() of a format writes to instead of sums.
struct UnpackedUnit {
    struct Totals {};
    class Sums;
    static constexpr bool kFetchesAhead = true;
    UnpackedBlock* block;  // of the unit's first 32 columns
    std::int64_t ahead;
};

class UnpackedUnit::Sums {
  public:
    HELIX_INLINE Sums(const UnpackedUnit& unit, int j) : block_(unit.block[j]) {}
    HELIX_INLINE void clear() {}
    HELIX_INLINE void start_zeros(Ints zeros) { offset_ = of_every_byte(zeros); }
    template <int kShift>
    HELIX_INLINE void start() {
        offset_ = of_every_byte(set1(1 << kShift));
    }
    template <int kShift>
    HELIX_INLINE void start_lower() {
        start<kShift>();
    }
    template <int kShift>
    HELIX_INLINE void start_upper() {}
    HELIX_INLINE void add_group(int g, Bytes w) {
        store_bytes(block_.w + 64 * g, sub_bytes(w, offset_));
    }
    HELIX_INLINE void add_small_group(int g, Bytes w) { add_group(g, w); }
    HELIX_INLINE void add_scaled_to(Totals&, Floats d) { store(block_.scale, d); }
    HELIX_INLINE void add_mins_to(Totals&, Floats min) { store(block_.second, min); }
    HELIX_INLINE void take_lower(Floats d) { store(block_.scale, d); }
    HELIX_INLINE void add_halves_to(Totals&, Floats d) { store(block_.second, d); }
    HELIX_INLINE void add_halves_to(Totals&, Floats d, Floats lower_min, Floats upper_min) {
        store(block_.second, d);
        store(block_.mins[0], lower_min);
        store(block_.mins[1], upper_min);
    }

  private:
    UnpackedBlock& block_;
    Bytes offset_ = of_every_byte(set1(0));
};

// Activations that one panel after the other is multiplied by: half of the second cache of the CPUs
// that have tiles.
constexpr std::int64_t kTiledRowsBytes = 1 << 20;
// Below this many rows beyond whole tiles, the vector kernel is quicker than one more tile.
constexpr std::int64_t kLeastTiledRows = 6;

template <class Format, class Tiles>
class TileMatmul {
  public:
    // input.rows is at least kTileRows. few: the vector kernel, for rows beyond whole tiles.
    TileMatmul(const PackedMatrix& matrix, const MatmulInput& input, const MatmulOutput& output,
               MatmulKernel few)
        : matrix_(matrix), input_(input), output_(output), few_(few) {
        const std::int64_t rest = input.rows % kTileRows;
        tiled_rows_ = rest < kLeastTiledRows ? input.rows - rest : input.rows;
    }

    void run(std::int64_t begin, std::int64_t end) {
        const std::int64_t tile_bytes =
            kTileRows * row_blocks_ * static_cast<std::int64_t>(sizeof(QuantisedBlock));
        const std::int64_t fitting = kTiledRowsBytes / tile_bytes + 1;
        const std::int64_t together = fitting < kMostTiles ? fitting : kMostTiles;
        const std::int64_t tiles = (tiled_rows_ + kTileRows - 1) / kTileRows;
        tiles_.configure(kColumns);
        for (std::int64_t first = 0; first < tiles; first += together) {
            const std::int64_t last = first + together < tiles ? first + together : tiles;
            for (std::int64_t panel = begin; panel < end; ++panel) {
                multiply_panel(panel, first, last);
                if (last == tiles) multiply_few(panel);
            }
        }
        tiles_.release();
    }

  private:
    static constexpr bool kHalfMins = Format::kScales == ScaleKind::half_mins;
    static constexpr bool kHalves = kHalfMins || Format::kScales == ScaleKind::halves;
    static constexpr int kColumns = kHalves ? 16 : 32;  // of one product
    static constexpr int kBlocksAtOnce = kHalves ? kSumTiles / 2 : kSumTiles;
    static constexpr std::int64_t kChunkBlocks = 32;  // that are unpacked at a time
    static_assert(kChunkBlocks % kSegmentBlocks == 0);
    static constexpr std::int64_t kMostTiles = 16;
    using TileSums = std::int32_t[kTileRows][16];

    // Rows [first, last) of tiles times one panel.
    void multiply_panel(std::int64_t panel, std::int64_t first, std::int64_t last) {
        const std::byte* p = panel_weights<Format>(matrix_, panel);
        for (std::int64_t begin = 0; begin < row_blocks_; begin += kChunkBlocks) {
            const std::int64_t left = row_blocks_ - begin;
            const std::int64_t n = left < kChunkBlocks ? left : kChunkBlocks;
            UnpackedUnit::Totals none;
            for (std::int64_t b = 0; b < n; b += Format::kBlocks, p += Format::kUnitBytes)
                Format::add_unit(p, UnpackedUnit{unpacked_ + b, kFetchAhead}, none);
            for (std::int64_t tile = first; tile < last; ++tile) {
                const std::int64_t row = first_row(tile);
                float* total = totals_[tile - first][0];
                add_chunk(input_.quantised + row * row_blocks_ + begin, n, begin == 0, total);
                if (n < left) continue;
                for (int r = 0; r < kTileRows; ++r) {
                    if (row + r >= tile * kTileRows)
                        store_result(load(total + 16 * r), row + r, panel * 16, matrix_.rows(),
                                     output_);
                }
            }
        }
    }

    // The last tile ends with the last row: some of its rows may be those of the tile before.
    std::int64_t first_row(std::int64_t tile) const {
        const std::int64_t last = tiled_rows_ - kTileRows;
        return tile * kTileRows < last ? tile * kTileRows : last;
    }

    void multiply_few(std::int64_t panel) {
        if (tiled_rows_ == input_.rows) return;
        MatmulInput input = input_;
        input.quantised += tiled_rows_ * row_blocks_;
        input.rows -= tiled_rows_;
        MatmulOutput output = output_;
        output.data += tiled_rows_ * output_.stride;
        few_(matrix_, panel, panel + 1, input, output);
    }

    // Adds, segment by segment, n unpacked blocks times the 16 rows whose blocks begin at x,
    // row_blocks_ apart. total: [16 rows][16 outputs]; starts: zero is there, whatever it holds.
    HELIX_INLINE void add_chunk(const QuantisedBlock* x, std::int64_t n, bool starts,
                                float* total) {
        for (std::int64_t b = 0; b < n; b += kSegmentBlocks) {
            Array<Floats, kTileRows> sum;
            HELIX_UNROLL
            for (int r = 0; r < kTileRows; ++r) sum[r] = set1(0.0F);
            add_blocks(x, b, b + kSegmentBlocks < n ? b + kSegmentBlocks : n, sum);
            const bool first = starts && b == 0;
            HELIX_UNROLL
            for (int r = 0; r < kTileRows; ++r) {
                const Floats before = first ? set1(0.0F) : load(total + 16 * r);
                store(total + 16 * r, add(before, sum[r]));
            }
        }
    }

    // Unpacked blocks [b, end).
    HELIX_INLINE void add_blocks(const QuantisedBlock* x, std::int64_t b, std::int64_t end,
                                 Array<Floats, kTileRows>& sum) {
        for (; b + kBlocksAtOnce <= end; b += kBlocksAtOnce) {
            multiply_blocks(x + b, unpacked_ + b, std::make_integer_sequence<int, kBlocksAtOnce>());
            for (int i = 0; i < kBlocksAtOnce; ++i) add_block(x + b + i, b + i, i, sum);
        }
        for (; b < end; ++b) {
            multiply_block<0>(x + b, unpacked_[b]);
            add_block(x + b, b, 0, sum);
        }
    }

    template <int... kPlaces>
    HELIX_INLINE void multiply_blocks(const QuantisedBlock* x, const UnpackedBlock* blocks,
                                      std::integer_sequence<int, kPlaces...>) {
        (multiply_block<kPlaces>(x + kPlaces, blocks[kPlaces]), ...);
    }

    template <int kPlace>
    HELIX_INLINE void multiply_block(const QuantisedBlock* x, const UnpackedBlock& block) {
        if constexpr (kHalves) {
            multiply<2 * kPlace>(x->q, block.w);
            multiply<2 * kPlace + 1>(x->q + 16, block.w + 256);
        } else {
            multiply<kPlace>(x->q, block.w);
        }
    }

    template <int kSum>
    HELIX_INLINE void multiply(const std::int8_t* x, const std::int8_t* w) {
        constexpr int kX = kSumTiles + kSum % 2 * 2;
        constexpr int kW = kX + 1;
        tiles_.template zero<kSum>();
        tiles_.template load<kX>(x,
                                 row_blocks_ * static_cast<std::int64_t>(sizeof(QuantisedBlock)));
        tiles_.template load<kW>(w, 64);
        tiles_.template add_product<kSum, kX, kW>();
        tiles_.template store<kSum>(sums_[kSum], 64);
    }

    // Adds the sums of unpacked block b, which lie at this place.
    HELIX_INLINE void add_block(const QuantisedBlock* x, std::int64_t b, int place,
                                Array<Floats, kTileRows>& total) const {
        const UnpackedBlock& block = unpacked_[b];
        const Floats d = load(block.scale);
        const TileSums& sums = sums_[kHalves ? 2 * place : place];
        HELIX_UNROLL
        for (int r = 0; r < kTileRows; ++r, x += row_blocks_) {
            const Floats sum = to_floats(load_ints(sums[r]));
            if constexpr (kHalves) {
                const Floats upper = to_floats(load_ints(sums_[2 * place + 1][r]));
                Floats both = fma(upper, load(block.second), mul(sum, d));
                if constexpr (kHalfMins) {
                    const std::int32_t minus_lower = x->minus_sum - x->minus_upper_sum;
                    both = fma(to_floats(set1(minus_lower)), load(block.mins[0]), both);
                    both = fma(to_floats(set1(x->minus_upper_sum)), load(block.mins[1]), both);
                }
                total[r] = fma(both, set1(x->scale), total[r]);
            } else {
                total[r] = fma(sum, mul(d, set1(x->scale)), total[r]);
            }
            if constexpr (Format::kScales == ScaleKind::min)
                total[r] = fma(set1(x->scaled_sum), load(block.second), total[r]);
        }
    }

    const PackedMatrix& matrix_;
    const MatmulInput& input_;
    const MatmulOutput& output_;
    const MatmulKernel few_;
    const std::int64_t row_blocks_ = matrix_.cols() / 32;
    std::int64_t tiled_rows_;  // the first of the input; the others are for few_
    Tiles tiles_;
    UnpackedBlock unpacked_[kChunkBlocks];
    alignas(64) TileSums sums_[kSumTiles];
    alignas(64) float totals_[kMostTiles][kTileRows][16];
};

// rest: the table without tiles, which has the kernels for fewer rows than a tile has.
template <class Format, class Tiles, const Kernels& (*kRest)()>
void tile_matmul(const PackedMatrix& matrix, std::int64_t begin, std::int64_t end,
                 const MatmulInput& input, const MatmulOutput& output) {
    const MatmulKernel few = kRest().matmul(matrix.type());
    if (input.rows < kTileRows) return few(matrix, begin, end, input, output);
    TileMatmul<Format, Tiles>(matrix, input, output, few).run(begin, end);
}

// The table kRest(), with products of quantised matrices through tiles.
template <class Tiles, const Kernels& (*kRest)()>
Kernels make_tile_table(Isa isa) {
    Kernels k = kRest();
    k.isa = isa;
    k.matmul_q8_0 = tile_matmul<Q8_0, Tiles, kRest>;
    k.matmul_q4_0 = tile_matmul<Q4_0, Tiles, kRest>;
    k.matmul_q4_k = tile_matmul<Q4_K, Tiles, kRest>;
    k.matmul_q6_k = tile_matmul<Q6_K, Tiles, kRest>;
    k.matmul_q4_1 = tile_matmul<Q4_1, Tiles, kRest>;
    k.matmul_q5_0 = tile_matmul<Q5_0, Tiles, kRest>;
    k.matmul_q5_1 = tile_matmul<Q5_1, Tiles, kRest>;
    k.matmul_q2_k = tile_matmul<Q2_K, Tiles, kRest>;
    k.matmul_q3_k = tile_matmul<Q3_K, Tiles, kRest>;
    k.matmul_q5_k = tile_matmul<Q5_K, Tiles, kRest>;
    k.matmul_iq4_nl = tile_matmul<Iq4_Nl, Tiles, kRest>;
    k.matmul_iq4_xs = tile_matmul<Iq4_Xs, Tiles, kRest>;
    k.matmul_mxfp4 = tile_matmul<Mxfp4, Tiles, kRest>;
    k.matmul_int4 = tile_matmul<Int4, Tiles, kRest>;
    k.matmul_codes = tile_matmul<Codes<ScaleKind::one>, Tiles, kRest>;
    k.matmul_half_codes = tile_matmul<Codes<ScaleKind::halves>, Tiles, kRest>;
    return k;
}
