#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace helix::engine {

// While it lives, this thread computes as the canonical arithmetic does (docs/numerics.md): numbers
// nearer to zero than the least normal one are zero, where they are read and where they would be
// the result. Threads that this one starts inherit it.
class FlushedSubnormals {
  public:
#if defined(__x86_64__)
    FlushedSubnormals() : before_(_mm_getcsr()) {
        _mm_setcsr(before_ | kFlush);
    }
    ~FlushedSubnormals() {
        _mm_setcsr(before_);
    }

  private:
    static constexpr std::uint32_t kFlush = 0x8040;  // FTZ and DAZ of MXCSR
    const std::uint32_t before_;

  public:
#elif defined(__aarch64__)
    FlushedSubnormals() : before_(control()) {
        set_control(before_ | kFlush);
    }
    ~FlushedSubnormals() {
        set_control(before_);
    }

  private:
    static constexpr std::uint64_t kFlush = std::uint64_t{1} << 24;  // FZ of FPCR
    static std::uint64_t control() {
        std::uint64_t value = 0;
        asm volatile("mrs %0, fpcr" : "=r"(value));
        return value;
    }
    static void set_control(std::uint64_t value) {
        asm volatile("msr fpcr, %0" : : "r"(value));
    }
    const std::uint64_t before_;

  public:
#else
#error "how does this processor flush subnormal numbers?"
#endif
    FlushedSubnormals(const FlushedSubnormals&) = delete;
    FlushedSubnormals& operator=(const FlushedSubnormals&) = delete;
};

}  // namespace helix::engine
