// What a unit of each quantised format adds to the sums of a panel. Included in a variant's
// namespace (see op_variants.h); layouts in packed_matrix.h.

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

// Weights from a table of sixteen levels, all of them kOffset too large to be unsigned.
template <class Levels>
struct Levels4 {
    static constexpr int kUnitBytes = 288;
    static constexpr int kBlocks = 1;
    template <int kRows>
    HELIX_INLINE static void add_unit(const std::byte* p, const QuantisedTile<kRows>& x,
                                      std::int64_t b, Array<Floats, kRows>& total) {
        const Floats d = Levels::load_scale(p);
        const Bytes levels = load_levels(Levels::kRaised);
        Bytes w[8];
        load_nibbles(p + 32, w);
        HELIX_UNROLL
        for (int g = 0; g < 8; ++g) w[g] = look_up(levels, w[g]);
        HELIX_UNROLL
        for (int r = 0; r < kRows; ++r) {
            const std::int8_t* q = x.q[r] + 32 * b;
            Ints even = set1(-Levels::kOffset * x.sum32(r, b));
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

struct Iq4Levels {
    static constexpr int kOffset = 128;
    static constexpr std::uint8_t kRaised[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                                 129, 141, 153, 166, 181, 197, 217, 241};
    HELIX_INLINE static Floats load_scale(const std::byte* p) { return load_half(p); }
};
struct Mxfp4Levels {
    static constexpr int kOffset = 12;
    static constexpr std::uint8_t kRaised[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                                 12, 11, 10, 9,  8,  6,  4,  0};
    HELIX_INLINE static Floats load_scale(const std::byte* p) { return load_bfloat(p); }
};
using Iq4_Nl = Levels4<Iq4Levels>;
using Mxfp4 = Levels4<Mxfp4Levels>;

// ORs the fifth bits of 32 columns into their nibbles.
HELIX_INLINE void add_fifth_bits(const std::byte* p, Bytes (&w)[8]) {
    const Bytes bits = load_bytes(p);
    w[0] = bit_or(w[0], and_shift_left<4>(bits, 1));
    w[1] = bit_or(w[1], and_shift_left<3>(bits, 2));
    w[2] = bit_or(w[2], and_shift_left<2>(bits, 4));
    w[3] = bit_or(w[3], and_shift_left<1>(bits, 8));
    w[4] = bit_or(w[4], shift_right_and<0>(bits, 16));
    w[5] = bit_or(w[5], shift_right_and<1>(bits, 16));
    w[6] = bit_or(w[6], shift_right_and<2>(bits, 16));
    w[7] = bit_or(w[7], shift_right_and<3>(bits, 16));
}

struct Q5_0 {
    static constexpr int kUnitBytes = 352;
    static constexpr int kBlocks = 1;
    template <int kRows>
    HELIX_INLINE static void add_unit(const std::byte* p, const QuantisedTile<kRows>& x,
                                      std::int64_t b, Array<Floats, kRows>& total) {
        const Floats d = load_half(p);
        Bytes w[8];
        load_nibbles(p + 32, w);
        add_fifth_bits(p + 32 + 256, w);
        HELIX_UNROLL
        for (int r = 0; r < kRows; ++r) {
            const Ints sum = dot32_small(set1(-16 * x.sum32(r, b)), w, x.q[r] + 32 * b);
            total[r] = fma(to_floats(sum), mul(d, set1(x.scale[r][b])), total[r]);
        }
    }
};

// w = d * q + m, q of four or five bits.
template <bool kFive>
struct WithMin {
    static constexpr int kUnitBytes = kFive ? 384 : 320;
    static constexpr int kBlocks = 1;
    template <int kRows>
    HELIX_INLINE static void add_unit(const std::byte* p, const QuantisedTile<kRows>& x,
                                      std::int64_t b, Array<Floats, kRows>& total) {
        const Floats d = load_half(p);
        const Floats m = load_half(p + 32);
        Bytes w[8];
        load_nibbles(p + 64, w);
        if constexpr (kFive) add_fifth_bits(p + 64 + 256, w);
        HELIX_UNROLL
        for (int r = 0; r < kRows; ++r) {
            const float x_scale = x.scale[r][b];
            const Ints sum = dot32_small(set1(0), w, x.q[r] + 32 * b);
            total[r] = fma(to_floats(sum), mul(d, set1(x_scale)), total[r]);
            const float x_sum = x_scale * static_cast<float>(x.sum32(r, b));
            total[r] = fma(set1(x_sum), m, total[r]);
        }
    }
};
using Q4_1 = WithMin<false>;
using Q5_1 = WithMin<true>;

// Q4_K and Q5_K.
template <bool kFive>
struct KWithMin {
    static constexpr int kEighthBytes = kFive ? 352 : 288;
    static constexpr int kUnitBytes = 64 + 8 * kEighthBytes;
    static constexpr int kBlocks = 8;
    template <int kRows>
    HELIX_INLINE static void add_unit(const std::byte* p, const QuantisedTile<kRows>& x,
                                      std::int64_t b0, Array<Floats, kRows>& total) {
        const Floats d = load_half(p);
        const Floats dmin = load_half(p + 32);
        for (int j = 0; j < 8; ++j) {
            const std::byte* eighth = p + 64 + kEighthBytes * j;
            const Floats scale = mul(d, to_floats(load_u8(eighth)));
            const Floats min = mul(dmin, to_floats(load_u8(eighth + 16)));
            Bytes w[8];
            load_nibbles(eighth + 32, w);
            if constexpr (kFive) add_fifth_bits(eighth + 32 + 256, w);
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

using Q4_K = KWithMin<false>;
using Q5_K = KWithMin<true>;

// q of six bits, less 32.
struct SixBits {
    static constexpr int kBytes = 384;
    static constexpr int kOffset = 32;
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
};

// q of three bits, less 4.
struct ThreeBits {
    static constexpr int kBytes = 192;
    static constexpr int kOffset = 4;
    HELIX_INLINE static void load_weights(const std::byte* p, Bytes (&w)[8]) {
        HELIX_UNROLL
        for (int v = 0; v < 2; ++v) {
            const Bytes low = load_bytes(p + 64 * v);
            w[4 * v] = shift_right_and<0>(low, 3);
            w[4 * v + 1] = shift_right_and<2>(low, 3);
            w[4 * v + 2] = shift_right_and<4>(low, 3);
            w[4 * v + 3] = shift_right_and<6>(low, 3);
        }
        const Bytes high = load_bytes(p + 128);
        w[0] = bit_or(w[0], and_shift_left<2>(high, 1));
        w[1] = bit_or(w[1], and_shift_left<1>(high, 2));
        w[2] = bit_or(w[2], shift_right_and<0>(high, 4));
        w[3] = bit_or(w[3], shift_right_and<1>(high, 4));
        w[4] = bit_or(w[4], shift_right_and<2>(high, 4));
        w[5] = bit_or(w[5], shift_right_and<3>(high, 4));
        w[6] = bit_or(w[6], shift_right_and<4>(high, 4));
        w[7] = bit_or(w[7], shift_right_and<5>(high, 4));
    }
};

// Blocks of 256 with a signed scale for every 16 columns.
template <class Weights>
struct KSigned {
    static constexpr int kEighthBytes = 32 + Weights::kBytes;
    static constexpr int kUnitBytes = 32 + 8 * kEighthBytes;
    static constexpr int kBlocks = 8;

    template <int kRows>
    HELIX_INLINE static void add_unit(const std::byte* p, const QuantisedTile<kRows>& x,
                                      std::int64_t b0, Array<Floats, kRows>& total) {
        const Floats d = load_half(p);
        for (int j = 0; j < 8; ++j) {
            const std::byte* eighth = p + 32 + kEighthBytes * j;
            const Ints scale_low = load_i8(eighth);
            const Ints scale_high = load_i8(eighth + 16);
            Bytes w[8];
            Weights::load_weights(eighth + 32, w);
            HELIX_UNROLL
            for (int r = 0; r < kRows; ++r) {
                const std::int64_t b = b0 + j;
                const std::int8_t* q = x.q[r] + 32 * b;
                Ints low = set1(-Weights::kOffset * x.sum16[r][2 * b]);
                Ints high = set1(-Weights::kOffset * x.sum16[r][2 * b + 1]);
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
using Q6_K = KSigned<SixBits>;
using Q3_K = KSigned<ThreeBits>;
