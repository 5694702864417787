// What a unit of each quantised format adds to the sums of a panel. Included in a variant's
// namespace (see op_variants.h); layouts in packed_matrix.h.

// What a block of 32 columns is multiplied by: one scale; one scale and a minimum that is added; a
// scale for each half; or a scale and a minimum for each.
enum class ScaleKind { one, min, halves, half_mins };

template <int kRows>
struct BlockSums;

// Does a kernel for this many rows ask for weights before it needs them?
constexpr bool fetches_ahead(int rows) {
    return rows > 2;
}

// Rows of one call of a panel kernel, each at the block of activations that comes next. A format's
// add_unit() takes any type like this one: Sums is made for each block of 32 columns and is given
// its weights and scales, in the order in which they count (the other one:
// op_tile_matmul_kernel.h).
template <int kRows>
struct QuantisedTile {
    using Sums = BlockSums<kRows>;
    using Totals = Array<Floats, kRows>;
    static constexpr bool kFetchesAhead = fetches_ahead(kRows);
    Array<const QuantisedBlock*, kRows> row;
    std::int64_t ahead;  // bytes from the weights in use to those that are fetched now
};

// Asks for the weights that come x.ahead bytes after these, into the second cache: the first one
// has too few places for lines on their way from memory to cover the time that they take. Not where
// the kernel is so quick that the CPU itself runs far ahead of it: asking then takes those places
// from it (docs/engine.md).
template <int kBytes, class Tile>
HELIX_INLINE void fetch_ahead(const std::byte* p, const Tile& x) {
    if constexpr (Tile::kFetchesAhead) {
        HELIX_UNROLL
        for (int line = 0; line < kBytes; line += 64) __builtin_prefetch(p + x.ahead + line, 0, 2);
    }
}

// The exact integer sums of one block of 32 columns, for each row. Group g is columns 4 g .. 4 g +
// 3 of the block. All rows take a group before the next one: the chains of additions overlap, and
// weights need not stay in registers.
template <int kRows>
struct BlockSums {
    Array<Ints, kRows> sum;
    Array<const QuantisedBlock*, kRows> block;
    Array<Floats, kRows> lower;  // of formats with two scales in a block

    HELIX_INLINE BlockSums(const QuantisedTile<kRows>& x, int j) {
        HELIX_UNROLL
        for (int r = 0; r < kRows; ++r) block[r] = x.row[r] + j;
    }
    HELIX_INLINE void clear() {
        HELIX_UNROLL
        for (int r = 0; r < kRows; ++r) sum[r] = set1(0);
    }
    // Starts with what unsigned weights, 2^kShift too large, would add too much: in the whole
    // block, or in one half of it.
    template <int kShift>
    HELIX_INLINE void start() {
        HELIX_UNROLL
        for (int r = 0; r < kRows; ++r) sum[r] = shift_left<kShift>(set1(block[r]->minus_sum));
    }
    template <int kShift>
    HELIX_INLINE void start_lower() {
        HELIX_UNROLL
        for (int r = 0; r < kRows; ++r)
            sum[r] =
                shift_left<kShift>(sub(set1(block[r]->minus_sum), set1(block[r]->minus_upper_sum)));
    }
    template <int kShift>
    HELIX_INLINE void start_upper() {
        HELIX_UNROLL
        for (int r = 0; r < kRows; ++r)
            sum[r] = shift_left<kShift>(set1(block[r]->minus_upper_sum));
    }
    // The same, where they are too large by a number for each output.
    HELIX_INLINE void start_zeros(Ints zeros) {
        HELIX_UNROLL
        for (int r = 0; r < kRows; ++r) sum[r] = mul(zeros, set1(block[r]->minus_sum));
    }
    HELIX_INLINE void add_group(int g, Bytes w) {
        HELIX_UNROLL
        for (int r = 0; r < kRows; ++r) sum[r] = dot4(sum[r], w, block[r]->q + 4 * g);
    }
    // For bytes below 128.
    HELIX_INLINE void add_small_group(int g, Bytes w) {
        HELIX_UNROLL
        for (int r = 0; r < kRows; ++r) sum[r] = dot4_small(sum[r], w, block[r]->q + 4 * g);
    }
    // total += sum * (d * scale of the activations)
    HELIX_INLINE void add_scaled_to(Array<Floats, kRows>& total, Floats d) const {
        HELIX_UNROLL
        for (int r = 0; r < kRows; ++r)
            total[r] = fma(to_floats(sum[r]), mul(d, set1(block[r]->scale)), total[r]);
    }
    // The sums of the lower half, and the scale of its weights.
    HELIX_INLINE void take_lower(Floats d) {
        HELIX_UNROLL
        for (int r = 0; r < kRows; ++r) lower[r] = mul(to_floats(sum[r]), d);
    }
    // total += (both halves, each scaled) * scale of the activations
    HELIX_INLINE void add_halves_to(Array<Floats, kRows>& total, Floats d) const {
        HELIX_UNROLL
        for (int r = 0; r < kRows; ++r) {
            const Floats both = fma(to_floats(sum[r]), d, lower[r]);
            total[r] = fma(both, set1(block[r]->scale), total[r]);
        }
    }
    // The same, with a minimum for each half that is subtracted.
    HELIX_INLINE void add_halves_to(Array<Floats, kRows>& total, Floats d, Floats lower_min,
                                    Floats upper_min) const {
        HELIX_UNROLL
        for (int r = 0; r < kRows; ++r) {
            const Ints upper = set1(block[r]->minus_upper_sum);
            Floats both = fma(to_floats(sum[r]), d, lower[r]);
            both = fma(to_floats(sub(set1(block[r]->minus_sum), upper)), lower_min, both);
            both = fma(to_floats(upper), upper_min, both);
            total[r] = fma(both, set1(block[r]->scale), total[r]);
        }
    }
    // total += min * the sum of the activations
    HELIX_INLINE void add_mins_to(Array<Floats, kRows>& total, Floats min) const {
        HELIX_UNROLL
        for (int r = 0; r < kRows; ++r) total[r] = fma(set1(block[r]->scaled_sum), min, total[r]);
    }
};

struct Q8_0 {
    static constexpr ScaleKind kScales = ScaleKind::one;
    static constexpr int kUnitBytes = 544;
    static constexpr int kBlocks = 1;  // of 32 columns in a unit
    template <class Tile>
    HELIX_INLINE static void add_unit(const std::byte* p, const Tile& x,
                                      typename Tile::Totals& total) {
        fetch_ahead<kUnitBytes>(p, x);
        typename Tile::Sums sums(x, 0);
        sums.template start<7>();
        HELIX_UNROLL
        for (int g = 0; g < 8; ++g) sums.add_group(g, load_bytes(p + 32 + 64 * g));
        sums.add_scaled_to(total, load_half(p));
    }
};

// Adds up 32 columns of nibbles.
template <class Sums>
HELIX_INLINE void add_nibbles(const std::byte* p, Sums& sums) {
    HELIX_UNROLL
    for (int v = 0; v < 4; ++v) {
        const Bytes both = load_bytes(p + 64 * v);
        sums.add_small_group(v, shift_right_and<0>(both, 15));
        sums.add_small_group(v + 4, shift_right_and<4>(both, 15));
    }
}

// Adds up 32 columns of nibbles with their fifth bits.
template <class Sums>
HELIX_INLINE void add_five_bits(const std::byte* p, Sums& sums) {
    const Bytes bits = load_bytes(p + 256);
    const auto low = [](const std::byte* at) { return shift_right_and<0>(load_bytes(at), 15); };
    const auto high = [](const std::byte* at) { return shift_right_and<4>(load_bytes(at), 15); };
    sums.add_small_group(0, bit_or(low(p), and_shift_left<4>(bits, 1)));
    sums.add_small_group(1, bit_or(low(p + 64), and_shift_left<3>(bits, 2)));
    sums.add_small_group(2, bit_or(low(p + 128), and_shift_left<2>(bits, 4)));
    sums.add_small_group(3, bit_or(low(p + 192), and_shift_left<1>(bits, 8)));
    sums.add_small_group(4, bit_or(high(p), shift_right_and<0>(bits, 16)));
    sums.add_small_group(5, bit_or(high(p + 64), shift_right_and<1>(bits, 16)));
    sums.add_small_group(6, bit_or(high(p + 128), shift_right_and<2>(bits, 16)));
    sums.add_small_group(7, bit_or(high(p + 192), shift_right_and<3>(bits, 16)));
}

struct Q4_0 {
    static constexpr ScaleKind kScales = ScaleKind::one;
    static constexpr int kUnitBytes = 288;
    static constexpr int kBlocks = 1;
    template <class Tile>
    HELIX_INLINE static void add_unit(const std::byte* p, const Tile& x,
                                      typename Tile::Totals& total) {
        fetch_ahead<kUnitBytes>(p, x);
        typename Tile::Sums sums(x, 0);
        sums.template start<3>();
        add_nibbles(p + 32, sums);
        sums.add_scaled_to(total, load_half(p));
    }
};

// w = d * (q - z), z a number for each output and block.
struct Int4 {
    static constexpr ScaleKind kScales = ScaleKind::one;
    static constexpr int kUnitBytes = 304;
    static constexpr int kBlocks = 1;
    template <class Tile>
    HELIX_INLINE static void add_unit(const std::byte* p, const Tile& x,
                                      typename Tile::Totals& total) {
        fetch_ahead<kUnitBytes>(p, x);
        const Ints zeros = load_u8(p + 32);
        typename Tile::Sums sums(x, 0);
        sums.start_zeros(bit_and(zeros, set1(int{model::quant::kZeroBits})));
        add_nibbles(p + 48, sums);
        sums.add_scaled_to(total, load_scale(p, zeros));
    }

  private:
    // Halves or bfloats, by the highest bit of a byte of zeros.
    HELIX_INLINE static Floats load_scale(const std::byte* p, Ints zeros) {
        static_assert(model::quant::kBfloatScale == 1U << 7U);
        const Ints of_bfloats = sub(set1(0), shift_right<7>(zeros));
        const Ints of_halves = sub(set1(-1), of_bfloats);
        return from_bits(add(bit_and(bits_of(load_bfloat(p)), of_bfloats),
                             bit_and(bits_of(load_half(p)), of_halves)));
    }
};

// Adds up 32 columns of nibbles that are the numbers of levels.
template <class Levels, class Sums>
HELIX_INLINE void add_levels(const std::byte* p, Sums& sums) {
    const Bytes levels = load_levels(Levels::kRaised);
    HELIX_UNROLL
    for (int v = 0; v < 4; ++v) {
        const Bytes both = load_bytes(p + 64 * v);
        sums.add_group(v, look_up(levels, shift_right_and<0>(both, 15)));
        sums.add_group(v + 4, look_up(levels, shift_right_and<4>(both, 15)));
    }
}

// Weights from a table of sixteen levels, all of them 2^kOffsetBits too large to be unsigned.
template <class Levels>
struct Levels4 {
    static constexpr ScaleKind kScales = ScaleKind::one;
    static constexpr int kUnitBytes = 288;
    static constexpr int kBlocks = 1;
    template <class Tile>
    HELIX_INLINE static void add_unit(const std::byte* p, const Tile& x,
                                      typename Tile::Totals& total) {
        fetch_ahead<kUnitBytes>(p, x);
        typename Tile::Sums sums(x, 0);
        sums.template start<Levels::kOffsetBits>();
        add_levels<Levels>(p + 32, sums);
        sums.add_scaled_to(total, Levels::load_scale(p));
    }
};

struct Iq4Levels {
    static constexpr int kOffsetBits = 7;
    static constexpr std::uint8_t kRaised[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                                 129, 141, 153, 166, 181, 197, 217, 241};
    HELIX_INLINE static Floats load_scale(const std::byte* p) { return load_half(p); }
};
struct Mxfp4Levels {
    static constexpr int kOffsetBits = 4;
    static constexpr std::uint8_t kRaised[16] = {16, 17, 18, 19, 20, 22, 24, 28,
                                                 16, 15, 14, 13, 12, 10, 8,  4};
    HELIX_INLINE static Floats load_scale(const std::byte* p) { return load_bfloat(p); }
};
using Iq4_Nl = Levels4<Iq4Levels>;
using Mxfp4 = Levels4<Mxfp4Levels>;

struct Q5_0 {
    static constexpr ScaleKind kScales = ScaleKind::one;
    static constexpr int kUnitBytes = 352;
    static constexpr int kBlocks = 1;
    template <class Tile>
    HELIX_INLINE static void add_unit(const std::byte* p, const Tile& x,
                                      typename Tile::Totals& total) {
        fetch_ahead<kUnitBytes>(p, x);
        typename Tile::Sums sums(x, 0);
        sums.template start<4>();
        add_five_bits(p + 32, sums);
        sums.add_scaled_to(total, load_half(p));
    }
};

// w = d * q + m, q of four or five bits.
template <bool kFive>
struct WithMin {
    static constexpr ScaleKind kScales = ScaleKind::min;
    static constexpr int kUnitBytes = kFive ? 384 : 320;
    static constexpr int kBlocks = 1;
    template <class Tile>
    HELIX_INLINE static void add_unit(const std::byte* p, const Tile& x,
                                      typename Tile::Totals& total) {
        fetch_ahead<kUnitBytes>(p, x);
        typename Tile::Sums sums(x, 0);
        sums.clear();
        if constexpr (kFive) {
            add_five_bits(p + 64, sums);
        } else {
            add_nibbles(p + 64, sums);
        }
        sums.add_scaled_to(total, load_half(p));
        sums.add_mins_to(total, load_half(p + 32));
    }
};
using Q4_1 = WithMin<false>;
using Q5_1 = WithMin<true>;

// Q4_K and Q5_K.
template <bool kFive>
struct KWithMin {
    static constexpr ScaleKind kScales = ScaleKind::min;
    static constexpr int kEighthBytes = kFive ? 352 : 288;
    static constexpr int kUnitBytes = 64 + 8 * kEighthBytes;
    static constexpr int kBlocks = 8;
    template <class Tile>
    HELIX_INLINE static void add_unit(const std::byte* p, const Tile& x,
                                      typename Tile::Totals& total) {
        const Floats d = load_half(p);
        const Floats minus_dmin = sub(set1(0.0F), load_half(p + 32));
        for (int j = 0; j < 8; ++j) {
            const std::byte* eighth = p + 64 + kEighthBytes * j;
            fetch_ahead<kEighthBytes>(eighth, x);
            typename Tile::Sums sums(x, j);
            sums.clear();
            if constexpr (kFive) {
                add_five_bits(eighth + 32, sums);
            } else {
                add_nibbles(eighth + 32, sums);
            }
            sums.add_scaled_to(total, mul(d, to_floats(load_u8(eighth))));
            sums.add_mins_to(total, mul(minus_dmin, to_floats(load_u8(eighth + 16))));
        }
    }
};

using Q4_K = KWithMin<false>;
using Q5_K = KWithMin<true>;

// Weights of KSigned: q of six bits, less 32. Each of the two functions adds up half of a block.
struct SixBits {
    static constexpr ScaleKind kScales = ScaleKind::halves;
    static constexpr int kBytes = 384;
    static constexpr int kOffsetBits = 5;
    template <class Sums>
    HELIX_INLINE static void add_low(const std::byte* p, Sums& sums) {
        add_half<0>(p, load_bytes(p + 256), 0, sums);
    }
    template <class Sums>
    HELIX_INLINE static void add_high(const std::byte* p, Sums& sums) {
        add_half<4>(p, load_bytes(p + 320), 4, sums);
    }

  private:
    template <int kShift, class Sums>
    HELIX_INLINE static void add_half(const std::byte* p, Bytes high, int g, Sums& sums) {
        const auto low = [p](int v) { return shift_right_and<kShift>(load_bytes(p + 64 * v), 15); };
        sums.add_small_group(g, bit_or(low(0), and_shift_left<4>(high, 3)));
        sums.add_small_group(g + 1, bit_or(low(1), and_shift_left<2>(high, 12)));
        sums.add_small_group(g + 2, bit_or(low(2), shift_right_and<0>(high, 48)));
        sums.add_small_group(g + 3, bit_or(low(3), shift_right_and<2>(high, 48)));
    }
};

// q of three bits, less 4.
struct ThreeBits {
    static constexpr ScaleKind kScales = ScaleKind::halves;
    static constexpr int kBytes = 192;
    static constexpr int kOffsetBits = 2;
    template <class Sums>
    HELIX_INLINE static void add_low(const std::byte* p, Sums& sums) {
        const Bytes low = load_bytes(p);
        const Bytes high = load_bytes(p + 128);
        sums.add_small_group(0, bit_or(shift_right_and<0>(low, 3), and_shift_left<2>(high, 1)));
        sums.add_small_group(1, bit_or(shift_right_and<2>(low, 3), and_shift_left<1>(high, 2)));
        sums.add_small_group(2, bit_or(shift_right_and<4>(low, 3), shift_right_and<0>(high, 4)));
        sums.add_small_group(3, bit_or(shift_right_and<6>(low, 3), shift_right_and<1>(high, 4)));
    }
    template <class Sums>
    HELIX_INLINE static void add_high(const std::byte* p, Sums& sums) {
        const Bytes low = load_bytes(p + 64);
        const Bytes high = load_bytes(p + 128);
        sums.add_small_group(4, bit_or(shift_right_and<0>(low, 3), shift_right_and<2>(high, 4)));
        sums.add_small_group(5, bit_or(shift_right_and<2>(low, 3), shift_right_and<3>(high, 4)));
        sums.add_small_group(6, bit_or(shift_right_and<4>(low, 3), shift_right_and<4>(high, 4)));
        sums.add_small_group(7, bit_or(shift_right_and<6>(low, 3), shift_right_and<5>(high, 4)));
    }
};

// Levels of four bits, with one scale for the whole block.
struct FourBitLevels {
    static constexpr ScaleKind kScales = ScaleKind::one;
    static constexpr int kBytes = 256;
    static constexpr int kOffsetBits = Iq4Levels::kOffsetBits;
    template <class Sums>
    HELIX_INLINE static void add(const std::byte* p, Sums& sums) {
        add_levels<Iq4Levels>(p, sums);
    }
};

// Blocks of 256 with a signed scale for every 32 columns, or for every 16.
template <class Weights>
struct KSigned {
    static constexpr ScaleKind kScales = Weights::kScales;
    static constexpr int kScaleBytes = kScales == ScaleKind::halves ? 32 : 16;
    static constexpr int kEighthBytes = kScaleBytes + Weights::kBytes;
    static constexpr int kUnitBytes = 32 + 8 * kEighthBytes;
    static constexpr int kBlocks = 8;

    template <class Tile>
    HELIX_INLINE static void add_unit(const std::byte* p, const Tile& x,
                                      typename Tile::Totals& total) {
        const Floats d = load_half(p);
        for (int j = 0; j < 8; ++j) {
            const std::byte* eighth = p + 32 + kEighthBytes * j;
            fetch_ahead<kEighthBytes>(eighth, x);
            const std::byte* weights = eighth + kScaleBytes;
            typename Tile::Sums sums(x, j);
            if constexpr (kScales == ScaleKind::halves) {
                sums.template start_lower<Weights::kOffsetBits>();
                Weights::add_low(weights, sums);
                sums.take_lower(mul(d, to_floats(load_i8(eighth))));
                sums.template start_upper<Weights::kOffsetBits>();
                Weights::add_high(weights, sums);
                sums.add_halves_to(total, mul(d, to_floats(load_i8(eighth + 16))));
            } else {
                sums.template start<Weights::kOffsetBits>();
                Weights::add(weights, sums);
                sums.add_scaled_to(total, mul(d, to_floats(load_i8(eighth))));
            }
        }
    }
};
using Q6_K = KSigned<SixBits>;
using Q3_K = KSigned<ThreeBits>;
using Iq4_Xs = KSigned<FourBitLevels>;

// q of two bits; blocks of 256 with a scale and a minimum for every 16 columns.
struct Q2_K {
    static constexpr ScaleKind kScales = ScaleKind::half_mins;
    static constexpr int kEighthBytes = 32 + 128;
    static constexpr int kUnitBytes = 64 + 8 * kEighthBytes;
    static constexpr int kBlocks = 8;

    template <class Tile>
    HELIX_INLINE static void add_unit(const std::byte* p, const Tile& x,
                                      typename Tile::Totals& total) {
        const Floats d = load_half(p);
        const Floats dmin = load_half(p + 32);
        for (int j = 0; j < 8; ++j) {
            const std::byte* eighth = p + 64 + kEighthBytes * j;
            fetch_ahead<kEighthBytes>(eighth, x);
            const Ints lower = load_u8(eighth);
            const Ints upper = load_u8(eighth + 16);
            typename Tile::Sums sums(x, j);
            sums.clear();
            add_half(eighth + 32, 0, sums);
            sums.take_lower(mul(d, to_floats(bit_and(lower, set1(15)))));
            sums.clear();
            add_half(eighth + 96, 4, sums);
            sums.add_halves_to(total, mul(d, to_floats(bit_and(upper, set1(15)))),
                               mul(dmin, to_floats(shift_right<4>(lower))),
                               mul(dmin, to_floats(shift_right<4>(upper))));
        }
    }

  private:
    template <class Sums>
    HELIX_INLINE static void add_half(const std::byte* p, int g, Sums& sums) {
        const Bytes bits = load_bytes(p);
        sums.add_small_group(g, shift_right_and<0>(bits, 3));
        sums.add_small_group(g + 1, shift_right_and<2>(bits, 3));
        sums.add_small_group(g + 2, shift_right_and<4>(bits, 3));
        sums.add_small_group(g + 3, shift_right_and<6>(bits, 3));
    }
};

// Weights that decode_panel() has decoded.
template <ScaleKind kKind>
struct Codes {
    static constexpr bool kDecoded = true;
    static constexpr ScaleKind kScales = kKind;
    static constexpr int kUnitBytes = sizeof(DecodedBlock);
    static constexpr int kBlocks = 1;
    static constexpr int kOffsetBits = 6;

    template <class Tile>
    HELIX_INLINE static void add_unit(const std::byte* p, const Tile& x,
                                      typename Tile::Totals& total) {
        const auto& block = *static_cast<const DecodedBlock*>(static_cast<const void*>(p));
        typename Tile::Sums sums(x, 0);
        if constexpr (kKind == ScaleKind::halves) {
            sums.template start_lower<kOffsetBits>();
            add_groups<0, 4>(block, sums);
            sums.take_lower(load(block.scale[0]));
            sums.template start_upper<kOffsetBits>();
            add_groups<4, 8>(block, sums);
            sums.add_halves_to(total, load(block.scale[1]));
        } else {
            sums.template start<kOffsetBits>();
            add_groups<0, 8>(block, sums);
            sums.add_scaled_to(total, load(block.scale[0]));
        }
    }

  private:
    template <int kFirst, int kEnd, class Sums>
    HELIX_INLINE static void add_groups(const DecodedBlock& block, Sums& sums) {
        HELIX_UNROLL
        for (int g = kFirst; g < kEnd; ++g) sums.add_small_group(g, load_bytes(block.w + 64 * g));
    }
};

// The units of a panel, as a format's add_unit() takes them.
template <class Format>
const std::byte* panel_weights(const PackedMatrix& matrix, std::int64_t panel) {
    if constexpr (requires { Format::kDecoded; }) {
        return static_cast<const std::byte*>(static_cast<const void*>(decode_panel(matrix, panel)));
    } else {
        return matrix.panel(panel);
    }
}
