// Sixteen lanes as two AVX2 registers; needs FMA and F16C. See simd_portable.h for what each
// function does.

constexpr int kLanes = 16;
constexpr int kMaxRows = 4;

struct Floats {
    __m256 lo, hi;
};
struct Ints {
    __m256i lo, hi;
};
struct Bytes {
    __m256i lo, hi;
};

HELIX_INLINE __m256i load_raw(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
HELIX_INLINE __m128i load_raw_128(const void* p) {
    return _mm_loadu_si128(static_cast<const __m128i*>(p));
}

HELIX_INLINE Floats set1(float x) {
    return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
HELIX_INLINE Floats load(const float* p) {
    return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
HELIX_INLINE Floats load_half(const std::byte* p) {
    return {_mm256_cvtph_ps(load_raw_128(p)), _mm256_cvtph_ps(load_raw_128(p + 16))};
}
HELIX_INLINE __m256 widen_bfloat(__m128i bits) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
HELIX_INLINE Floats load_bfloat(const std::byte* p) {
    return {widen_bfloat(load_raw_128(p)), widen_bfloat(load_raw_128(p + 16))};
}
HELIX_INLINE Floats load_fp8(const std::byte* p) {
    const __m256i wide = _mm256_cvtepu8_epi16(load_raw_128(p));
    const __m256i magnitude =
        _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(0x3f80));
    const __m256i sign =
        _mm256_and_si256(_mm256_slli_epi16(wide, 8), _mm256_set1_epi16(static_cast<short>(0x8000)));
    const __m256i halves = _mm256_or_si256(magnitude, sign);
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
            _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
}
HELIX_INLINE void store(float* p, Floats a) {
    _mm256_storeu_ps(p, a.lo);
    _mm256_storeu_ps(p + 8, a.hi);
}
HELIX_INLINE void store_half(std::byte* p, Floats a) {
    const __m128i lo = _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT);
    const __m128i hi = _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT);
    std::memcpy(p, &lo, sizeof lo);
    std::memcpy(p + 16, &hi, sizeof hi);
}
HELIX_INLINE Floats add(Floats a, Floats b) {
    return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
HELIX_INLINE Floats sub(Floats a, Floats b) {
    return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
HELIX_INLINE Floats mul(Floats a, Floats b) {
    return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
HELIX_INLINE Floats div(Floats a, Floats b) {
    return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
HELIX_INLINE Floats fma(Floats a, Floats b, Floats c) {
    return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
HELIX_INLINE Floats max(Floats a, Floats b) {
    return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
HELIX_INLINE Floats min(Floats a, Floats b) {
    return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
HELIX_INLINE Floats round(Floats a) {
    constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(a.lo, kMode), _mm256_round_ps(a.hi, kMode)};
}
HELIX_INLINE Ints to_ints(Floats a) {
    return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)};
}
HELIX_INLINE Floats to_floats(Ints a) {
    return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)};
}
HELIX_INLINE Ints bits_of(Floats a) {
    return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)};
}
HELIX_INLINE Floats from_bits(Ints a) {
    return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)};
}

HELIX_INLINE Ints set1(std::int32_t x) {
    return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
HELIX_INLINE Ints add(Ints a, Ints b) {
    return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
HELIX_INLINE Ints sub(Ints a, Ints b) {
    return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}
HELIX_INLINE Ints mul(Ints a, Ints b) {
    return {_mm256_mullo_epi32(a.lo, b.lo), _mm256_mullo_epi32(a.hi, b.hi)};
}
HELIX_INLINE Ints bit_and(Ints a, Ints b) {
    return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
HELIX_INLINE Ints max(Ints a, Ints b) {
    return {_mm256_max_epi32(a.lo, b.lo), _mm256_max_epi32(a.hi, b.hi)};
}
template <int kShift>
HELIX_INLINE Ints shift_left(Ints a) {
    return {_mm256_slli_epi32(a.lo, kShift), _mm256_slli_epi32(a.hi, kShift)};
}
template <int kShift>
HELIX_INLINE Ints shift_right(Ints a) {
    return {_mm256_srli_epi32(a.lo, kShift), _mm256_srli_epi32(a.hi, kShift)};
}
HELIX_INLINE Ints load_i8(const std::byte* p) {
    const __m128i bytes = load_raw_128(p);
    return {_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))};
}
HELIX_INLINE Ints load_u8(const std::byte* p) {
    const __m128i bytes = load_raw_128(p);
    return {_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
}
HELIX_INLINE void store_i8(std::int8_t* p, Ints a) {
    // packs works within 128-bit halves; the permutation puts the eights in order.
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a.lo, a.hi), 0xd8);
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    std::memcpy(p, &bytes, sizeof bytes);
}

HELIX_INLINE Bytes load_bytes(const std::byte* p) {
    return {load_raw(p), load_raw(p + 32)};
}
HELIX_INLINE void store_bytes(std::int8_t* p, Bytes a) {
    std::memcpy(p, &a.lo, sizeof a.lo);
    std::memcpy(p + sizeof a.lo, &a.hi, sizeof a.hi);
}
HELIX_INLINE Bytes sub_bytes(Bytes a, Bytes b) {
    return {_mm256_sub_epi8(a.lo, b.lo), _mm256_sub_epi8(a.hi, b.hi)};
}
HELIX_INLINE Bytes of_every_byte(Ints a) {
    const __m256i lowest = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12));
    return {_mm256_shuffle_epi8(a.lo, lowest), _mm256_shuffle_epi8(a.hi, lowest)};
}
HELIX_INLINE Bytes bit_or(Bytes a, Bytes b) {
    return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
template <int kShift>
HELIX_INLINE Bytes shift_right_and(Bytes a, std::uint8_t mask) {
    const __m256i m = _mm256_set1_epi8(static_cast<char>(mask));
    return {_mm256_and_si256(_mm256_srli_epi16(a.lo, kShift), m),
            _mm256_and_si256(_mm256_srli_epi16(a.hi, kShift), m)};
}
template <int kShift>
HELIX_INLINE Bytes and_shift_left(Bytes a, std::uint8_t mask) {
    const __m256i m = _mm256_set1_epi8(static_cast<char>(mask));
    return {_mm256_slli_epi16(_mm256_and_si256(a.lo, m), kShift),
            _mm256_slli_epi16(_mm256_and_si256(a.hi, m), kShift)};
}

HELIX_INLINE Bytes load_levels(const std::uint8_t (&levels)[16]) {
    __m128i sixteen;
    std::memcpy(&sixteen, levels, sizeof sixteen);
    const __m256i twice = _mm256_broadcastsi128_si256(sixteen);
    return {twice, twice};
}
HELIX_INLINE Bytes look_up(Bytes levels, Bytes index) {
    return {_mm256_shuffle_epi8(levels.lo, index.lo), _mm256_shuffle_epi8(levels.hi, index.hi)};
}

// The 16-bit pair sums of maddubs would saturate for two products of 255 * 127, so bytes of 128 and
// more are taken as 128 + the rest: w*x = (w & 127)*x + (w & 128)*x, where each pair sum fits.
HELIX_INLINE __m256i dot4_half(__m256i sums, __m256i w, __m256i x) {
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i low = _mm256_and_si256(w, _mm256_set1_epi8(0x7f));
    const __m256i high = _mm256_and_si256(w, _mm256_set1_epi8(static_cast<char>(0x80)));
    const __m256i low_pairs = _mm256_maddubs_epi16(low, x);    // |pair| <= 2 * 127 * 127
    const __m256i high_pairs = _mm256_maddubs_epi16(high, x);  // |pair| <= 2 * 128 * 127
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(low_pairs, ones));
    return _mm256_add_epi32(sums, _mm256_madd_epi16(high_pairs, ones));
}
HELIX_INLINE Ints dot4(Ints sums, Bytes w, const std::int8_t* x) {
    std::int32_t four = 0;
    std::memcpy(&four, x, sizeof four);
    const __m256i xs = _mm256_set1_epi32(four);
    return {dot4_half(sums.lo, w.lo, xs), dot4_half(sums.hi, w.hi, xs)};
}

HELIX_INLINE Ints dot4_small(Ints sums, Bytes w, const std::int8_t* x) {
    std::int32_t four = 0;
    std::memcpy(&four, x, sizeof four);
    const __m256i xs = _mm256_set1_epi32(four);
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i lo = _mm256_madd_epi16(_mm256_maddubs_epi16(w.lo, xs), ones);
    const __m256i hi = _mm256_madd_epi16(_mm256_maddubs_epi16(w.hi, xs), ones);
    return {_mm256_add_epi32(sums.lo, lo), _mm256_add_epi32(sums.hi, hi)};
}

HELIX_INLINE float reduce_add(Floats a) {
    const __m256 eight = _mm256_add_ps(a.lo, a.hi);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
HELIX_INLINE float reduce_max(Floats a) {
    const __m256 eight = _mm256_max_ps(a.lo, a.hi);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
HELIX_INLINE std::int32_t reduce_add(Ints a) {
    const __m256i eight = _mm256_add_epi32(a.lo, a.hi);
    const __m128i four =
        _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}
HELIX_INLINE std::int32_t reduce_max(Ints a) {
    const __m256i eight = _mm256_max_epi32(a.lo, a.hi);
    const __m128i four =
        _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}

HELIX_INLINE Floats load_first(const float* p, int n, float fill) {
    float lanes[16];
    for (int i = 0; i < 16; ++i) lanes[i] = fill;
    for (int i = 0; i < n; ++i) lanes[i] = p[i];
    return load(lanes);
}
HELIX_INLINE void store_first(float* p, int n, Floats a) {
    float lanes[16];
    store(lanes, a);
    for (int i = 0; i < n; ++i) p[i] = lanes[i];
}
