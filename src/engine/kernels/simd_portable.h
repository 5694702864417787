// Sixteen lanes as vectors of the compiler, which any processor has. simd_avx2.h and simd_avx512.h
// have the same names with the same results, bit for bit, so every kernel is written once. Included
// inside a namespace of the variant's own, after the standard headers; so no #pragma once and no
// includes here.

constexpr int kLanes = 16;
constexpr int kMaxRows = 4;  // rows that a matmul kernel takes at a time

struct Floats {
    float v __attribute__((vector_size(64)));
};
struct Ints {
    std::int32_t v __attribute__((vector_size(64)));
};
// 64 unsigned bytes; lane i owns bytes 4i .. 4i+3.
struct Bytes {
    std::uint8_t v __attribute__((vector_size(64)));
};

HELIX_INLINE Floats set1(float x) {
    return {x - (Floats{}).v};
}
HELIX_INLINE Floats load(const float* p) {
    Floats r;
    std::memcpy(&r.v, p, sizeof r.v);
    return r;
}
HELIX_INLINE Floats load_half(const std::byte* p) {
    std::uint16_t bits[16];
    std::memcpy(bits, p, sizeof bits);
    Floats r;
    for (int i = 0; i < 16; ++i) r.v[i] = half_to_float(bits[i]);
    return r;
}
HELIX_INLINE Floats load_bfloat(const std::byte* p) {
    std::uint16_t bits[16];
    std::memcpy(bits, p, sizeof bits);
    Floats r;
    for (int i = 0; i < 16; ++i) r.v[i] = bfloat_to_float(bits[i]);
    return r;
}
// Sixteen bytes of model/quant/fp8.h.
HELIX_INLINE Floats load_fp8(const std::byte* p) {
    Floats r;
    for (int i = 0; i < 16; ++i) r.v[i] = half_to_float(fp8_half(static_cast<unsigned>(p[i])));
    return r;
}
HELIX_INLINE void store(float* p, Floats a) {
    std::memcpy(p, &a.v, sizeof a.v);
}
HELIX_INLINE void store_half(std::byte* p, Floats a) {
    std::uint16_t bits[16];
    for (int i = 0; i < 16; ++i) bits[i] = float_to_half(a.v[i]);
    std::memcpy(p, bits, sizeof bits);
}
HELIX_INLINE Floats add(Floats a, Floats b) {
    return {a.v + b.v};
}
HELIX_INLINE Floats sub(Floats a, Floats b) {
    return {a.v - b.v};
}
HELIX_INLINE Floats mul(Floats a, Floats b) {
    return {a.v * b.v};
}
HELIX_INLINE Floats div(Floats a, Floats b) {
    return {a.v / b.v};
}
// A function of its own where each lane is a call of the C library: kernels are full of it.
#if defined(__FP_FAST_FMAF) || defined(FP_FAST_FMAF)
HELIX_INLINE
#else
[[gnu::noinline]]
#endif
void fma_lanes(const Floats& a, const Floats& b, Floats& c) {
    for (int i = 0; i < 16; ++i) c.v[i] = std::fma(a.v[i], b.v[i], c.v[i]);
}
// a * b + c, rounded once.
HELIX_INLINE Floats fma(Floats a, Floats b, Floats c) {
    fma_lanes(a, b, c);
    return c;
}
// The second when either is NaN, as the hardware does.
HELIX_INLINE Floats max(Floats a, Floats b) {
    return {a.v > b.v ? a.v : b.v};
}
HELIX_INLINE Floats min(Floats a, Floats b) {
    return {a.v < b.v ? a.v : b.v};
}
// To the nearest integer, ties to even.
HELIX_INLINE Floats round(Floats a) {
    for (int i = 0; i < 16; ++i) a.v[i] = std::nearbyint(a.v[i]);
    return a;
}
// What does not fit, and NaN, gives the smallest integer.
HELIX_INLINE Ints to_ints(Floats a) {
    Ints r;
    for (int i = 0; i < 16; ++i) {
        const float lane = std::nearbyint(a.v[i]);
        const bool fits = lane >= -0x1.0p31F && lane < 0x1.0p31F;
        r.v[i] = fits ? static_cast<std::int32_t>(lane) : std::numeric_limits<std::int32_t>::min();
    }
    return r;
}
HELIX_INLINE Floats to_floats(Ints a) {
    return {__builtin_convertvector(a.v, decltype(Floats::v))};
}
HELIX_INLINE Ints load_ints(const std::int32_t* p) {
    Ints r;
    std::memcpy(&r.v, p, sizeof r.v);
    return r;
}
HELIX_INLINE Ints bits_of(Floats a) {
    return std::bit_cast<Ints>(a);
}
HELIX_INLINE Floats from_bits(Ints a) {
    return std::bit_cast<Floats>(a);
}

HELIX_INLINE Ints set1(std::int32_t x) {
    return {x + (Ints{}).v};
}
HELIX_INLINE Ints add(Ints a, Ints b) {
    return {a.v + b.v};
}
HELIX_INLINE Ints sub(Ints a, Ints b) {
    return {a.v - b.v};
}
// Of lanes whose products fit.
HELIX_INLINE Ints mul(Ints a, Ints b) {
    return {a.v * b.v};
}
HELIX_INLINE Ints bit_and(Ints a, Ints b) {
    return {a.v & b.v};
}
HELIX_INLINE Ints max(Ints a, Ints b) {
    return {a.v > b.v ? a.v : b.v};
}
template <int kShift>
HELIX_INLINE Ints shift_left(Ints a) {
    return {a.v << kShift};
}
// Of lanes that are not negative.
template <int kShift>
HELIX_INLINE Ints shift_right(Ints a) {
    return {a.v >> kShift};
}
HELIX_INLINE Ints load_i8(const std::byte* p) {
    Ints r;
    for (int i = 0; i < 16; ++i) r.v[i] = static_cast<std::int8_t>(p[i]);
    return r;
}
HELIX_INLINE Ints load_u8(const std::byte* p) {
    Ints r;
    for (int i = 0; i < 16; ++i) r.v[i] = static_cast<std::uint8_t>(p[i]);
    return r;
}
// Lanes are within [-128, 127].
HELIX_INLINE void store_i8(std::int8_t* p, Ints a) {
    for (int i = 0; i < 16; ++i) p[i] = static_cast<std::int8_t>(a.v[i]);
}

HELIX_INLINE Bytes load_bytes(const std::byte* p) {
    Bytes r;
    std::memcpy(&r.v, p, sizeof r.v);
    return r;
}
HELIX_INLINE void store_bytes(std::int8_t* p, Bytes a) {
    std::memcpy(p, &a.v, sizeof a.v);
}
// Modulo 256.
HELIX_INLINE Bytes sub_bytes(Bytes a, Bytes b) {
    return {a.v - b.v};
}
// The lowest byte of each lane four times.
HELIX_INLINE Bytes of_every_byte(Ints a) {
    Bytes r;
    for (int i = 0; i < 64; ++i) r.v[i] = static_cast<std::uint8_t>(a.v[i / 4]);
    return r;
}
HELIX_INLINE Bytes bit_or(Bytes a, Bytes b) {
    return {a.v | b.v};
}
// (byte >> kShift) & mask
template <int kShift>
HELIX_INLINE Bytes shift_right_and(Bytes a, std::uint8_t mask) {
    return {(a.v >> kShift) & mask};
}
// (byte & mask) << kShift, which fits a byte
template <int kShift>
HELIX_INLINE Bytes and_shift_left(Bytes a, std::uint8_t mask) {
    return {(a.v & mask) << kShift};
}

// Sixteen bytes that look_up takes by their index.
HELIX_INLINE Bytes load_levels(const std::uint8_t (&levels)[16]) {
    Bytes r;
    for (int i = 0; i < 64; ++i) r.v[i] = levels[i % 16];
    return r;
}
// Each byte of index is below 16.
HELIX_INLINE Bytes look_up(Bytes levels, Bytes index) {
    for (int i = 0; i < 64; ++i) index.v[i] = levels.v[index.v[i]];
    return index;
}

// sums[lane] += sum over j < 4 of w[4 lane + j] * x[j]; |x| <= 127. Exact.
HELIX_INLINE Ints dot4(Ints sums, Bytes w, const std::int8_t* x) {
    for (int i = 0; i < 16; ++i) {
        for (int j = 0; j < 4; ++j) sums.v[i] += static_cast<std::int32_t>(w.v[4 * i + j]) * x[j];
    }
    return sums;
}

// For bytes below 128.
HELIX_INLINE Ints dot4_small(Ints sums, Bytes w, const std::int8_t* x) {
    return dot4(sums, w, x);
}

// Folded in halves: lane i with i+8, then i+4, i+2, i+1.
HELIX_INLINE float reduce_add(Floats a) {
    for (int half = 8; half > 0; half /= 2) {
        for (int i = 0; i < half; ++i) a.v[i] += a.v[i + half];
    }
    return a.v[0];
}
HELIX_INLINE float reduce_max(Floats a) {
    for (int half = 8; half > 0; half /= 2) {
        for (int i = 0; i < half; ++i) a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
    }
    return a.v[0];
}
HELIX_INLINE std::int32_t reduce_add(Ints a) {
    std::int32_t sum = 0;
    for (int i = 0; i < 16; ++i) sum += a.v[i];
    return sum;
}
HELIX_INLINE std::int32_t reduce_max(Ints a) {
    std::int32_t best = a.v[0];
    for (int i = 1; i < 16; ++i) best = a.v[i] > best ? a.v[i] : best;
    return best;
}

// Lanes below n of p; the others are fill. Reads only these lanes. 0 <= n <= 16.
HELIX_INLINE Floats load_first(const float* p, int n, float fill) {
    Floats r = set1(fill);
    for (int i = 0; i < n; ++i) r.v[i] = p[i];
    return r;
}
HELIX_INLINE void store_first(float* p, int n, Floats a) {
    for (int i = 0; i < n; ++i) p[i] = a.v[i];
}
