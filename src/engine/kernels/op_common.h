// What the kernels of every variant begin with. Included in a variant's namespace, after simd_*.h.

// Before a loop of at most sixteen turns over registers: at -O2 the compiler would keep them in
// memory.
#if defined(HELIX_UNROLL)
// As the including file has it.
#elif defined(__clang__)
#define HELIX_UNROLL _Pragma("unroll")
#else
#define HELIX_UNROLL _Pragma("GCC unroll 16")
#endif

// An array in registers, indexed by int.
template <typename T, int kSize>
struct Array {
    T v[static_cast<std::size_t>(kSize)];
    HELIX_INLINE T& operator[](int i) { return v[i]; }
    HELIX_INLINE const T& operator[](int i) const { return v[i]; }
};

HELIX_INLINE Floats load_float(const std::byte* p) {
    return load(static_cast<const float*>(static_cast<const void*>(p)));
}
