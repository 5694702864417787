// Sixteen lanes as one AVX-512 register (F, BW, DQ, VL, VNNI). See simd_portable.h for what each
// function does.

constexpr int kLanes = 16;
constexpr int kMaxRows = 8;

struct Floats {
    __m512 v;
};
struct Ints {
    __m512i v;
};
struct Bytes {
    __m512i v;
};

HELIX_INLINE Floats set1(float x) {
    return {_mm512_set1_ps(x)};
}
HELIX_INLINE Floats load(const float* p) {
    return {_mm512_loadu_ps(p)};
}
HELIX_INLINE __m256i load_raw_256(const std::byte* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(static_cast<const void*>(p)));
}
HELIX_INLINE __m128i load_raw_128(const std::byte* p) {
    return _mm_loadu_si128(static_cast<const __m128i*>(static_cast<const void*>(p)));
}
HELIX_INLINE Floats load_half(const std::byte* p) {
    return {_mm512_cvtph_ps(load_raw_256(p))};
}
HELIX_INLINE Floats load_bfloat(const std::byte* p) {
    const __m512i wide = _mm512_cvtepu16_epi32(load_raw_256(p));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
HELIX_INLINE Floats load_fp8(const std::byte* p) {
    const __m256i wide = _mm256_cvtepu8_epi16(load_raw_128(p));
    const __m256i magnitude =
        _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(0x3f80));
    const __m256i sign =
        _mm256_and_si256(_mm256_slli_epi16(wide, 8), _mm256_set1_epi16(static_cast<short>(0x8000)));
    return {_mm512_cvtph_ps(_mm256_or_si256(magnitude, sign))};
}
HELIX_INLINE void store(float* p, Floats a) {
    _mm512_storeu_ps(p, a.v);
}
HELIX_INLINE void store_half(std::byte* p, Floats a) {
    const __m256i bits = _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    std::memcpy(p, &bits, sizeof bits);
}
HELIX_INLINE Floats add(Floats a, Floats b) {
    return {_mm512_add_ps(a.v, b.v)};
}
HELIX_INLINE Floats sub(Floats a, Floats b) {
    return {_mm512_sub_ps(a.v, b.v)};
}
HELIX_INLINE Floats mul(Floats a, Floats b) {
    return {_mm512_mul_ps(a.v, b.v)};
}
HELIX_INLINE Floats div(Floats a, Floats b) {
    return {_mm512_div_ps(a.v, b.v)};
}
HELIX_INLINE Floats fma(Floats a, Floats b, Floats c) {
    return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
HELIX_INLINE Floats max(Floats a, Floats b) {
    return {_mm512_max_ps(a.v, b.v)};
}
HELIX_INLINE Floats min(Floats a, Floats b) {
    return {_mm512_min_ps(a.v, b.v)};
}
HELIX_INLINE Floats round(Floats a) {
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
HELIX_INLINE Ints to_ints(Floats a) {
    return {_mm512_cvtps_epi32(a.v)};
}
HELIX_INLINE Floats to_floats(Ints a) {
    return {_mm512_cvtepi32_ps(a.v)};
}
HELIX_INLINE Ints load_ints(const std::int32_t* p) {
    return {_mm512_loadu_si512(p)};
}
HELIX_INLINE Ints bits_of(Floats a) {
    return {_mm512_castps_si512(a.v)};
}
HELIX_INLINE Floats from_bits(Ints a) {
    return {_mm512_castsi512_ps(a.v)};
}

HELIX_INLINE Ints set1(std::int32_t x) {
    return {_mm512_set1_epi32(x)};
}
HELIX_INLINE Ints add(Ints a, Ints b) {
    return {_mm512_add_epi32(a.v, b.v)};
}
HELIX_INLINE Ints sub(Ints a, Ints b) {
    return {_mm512_sub_epi32(a.v, b.v)};
}
HELIX_INLINE Ints mul(Ints a, Ints b) {
    return {_mm512_mullo_epi32(a.v, b.v)};
}
HELIX_INLINE Ints bit_and(Ints a, Ints b) {
    return {_mm512_and_si512(a.v, b.v)};
}
HELIX_INLINE Ints max(Ints a, Ints b) {
    return {_mm512_max_epi32(a.v, b.v)};
}
template <int kShift>
HELIX_INLINE Ints shift_left(Ints a) {
    return {_mm512_slli_epi32(a.v, kShift)};
}
template <int kShift>
HELIX_INLINE Ints shift_right(Ints a) {
    return {_mm512_srli_epi32(a.v, kShift)};
}
HELIX_INLINE Ints load_i8(const std::byte* p) {
    return {_mm512_cvtepi8_epi32(load_raw_128(p))};
}
HELIX_INLINE Ints load_u8(const std::byte* p) {
    return {_mm512_cvtepu8_epi32(load_raw_128(p))};
}
HELIX_INLINE void store_i8(std::int8_t* p, Ints a) {
    const __m128i bytes = _mm512_cvtepi32_epi8(a.v);
    std::memcpy(p, &bytes, sizeof bytes);
}

HELIX_INLINE Bytes load_bytes(const std::byte* p) {
    return {_mm512_loadu_si512(p)};
}
HELIX_INLINE void store_bytes(std::int8_t* p, Bytes a) {
    _mm512_storeu_si512(p, a.v);
}
HELIX_INLINE Bytes sub_bytes(Bytes a, Bytes b) {
    return {_mm512_sub_epi8(a.v, b.v)};
}
HELIX_INLINE Bytes of_every_byte(Ints a) {
    const __m512i lowest =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12));
    return {_mm512_shuffle_epi8(a.v, lowest)};
}
HELIX_INLINE Bytes bit_or(Bytes a, Bytes b) {
    return {_mm512_or_si512(a.v, b.v)};
}
template <int kShift>
HELIX_INLINE Bytes shift_right_and(Bytes a, std::uint8_t mask) {
    const __m512i m = _mm512_set1_epi8(static_cast<char>(mask));
    return {_mm512_and_si512(_mm512_srli_epi16(a.v, kShift), m)};
}
template <int kShift>
HELIX_INLINE Bytes and_shift_left(Bytes a, std::uint8_t mask) {
    const __m512i m = _mm512_set1_epi8(static_cast<char>(mask));
    return {_mm512_slli_epi16(_mm512_and_si512(a.v, m), kShift)};
}
HELIX_INLINE Bytes load_levels(const std::uint8_t (&levels)[16]) {
    __m128i sixteen;
    std::memcpy(&sixteen, levels, sizeof sixteen);
    return {_mm512_broadcast_i32x4(sixteen)};
}
HELIX_INLINE Bytes look_up(Bytes levels, Bytes index) {
    return {_mm512_shuffle_epi8(levels.v, index.v)};
}
HELIX_INLINE Ints dot4(Ints sums, Bytes w, const std::int8_t* x) {
    std::int32_t four = 0;
    std::memcpy(&four, x, sizeof four);
    return {_mm512_dpbusd_epi32(sums.v, w.v, _mm512_set1_epi32(four))};
}

HELIX_INLINE Ints dot4_small(Ints sums, Bytes w, const std::int8_t* x) {
    return dot4(sums, w, x);
}

HELIX_INLINE __m256 upper(__m512 a) {
    return _mm512_extractf32x8_ps(a, 1);
}
HELIX_INLINE float reduce_add(Floats a) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), upper(a.v));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
HELIX_INLINE float reduce_max(Floats a) {
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), upper(a.v));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
HELIX_INLINE std::int32_t reduce_add(Ints a) {
    return _mm512_reduce_add_epi32(a.v);
}
HELIX_INLINE std::int32_t reduce_max(Ints a) {
    return _mm512_reduce_max_epi32(a.v);
}

HELIX_INLINE __mmask16 first_lanes(int n) {
    return static_cast<__mmask16>((1U << n) - 1U);
}
HELIX_INLINE Floats load_first(const float* p, int n, float fill) {
    return {_mm512_mask_loadu_ps(_mm512_set1_ps(fill), first_lanes(n), p)};
}
HELIX_INLINE void store_first(float* p, int n, Floats a) {
    _mm512_mask_storeu_ps(p, first_lanes(n), a.v);
}
