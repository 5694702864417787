#include <cstring>

#include "engine/kernels/formats.h"

// F32, F16 and BF16: values one after another.

namespace helix::engine::ops {
namespace {

template <int kBytes>
void pack_unit(const std::byte* const* blocks, std::byte* out) {
    for (int i = 0; i < 16; ++i) std::memcpy(out + i * kBytes, blocks[i], kBytes);
}

}  // namespace

const Format& f32_format() {
    static constexpr Format kFormat{"f32", 1, 4, 64, false, pack_unit<4>};
    return kFormat;
}

const Format& f16_format() {
    static constexpr Format kFormat{"f16", 1, 2, 32, false, pack_unit<2>};
    return kFormat;
}

const Format& bf16_format() {
    static constexpr Format kFormat{"bf16", 1, 2, 32, false, pack_unit<2>};
    return kFormat;
}

}  // namespace helix::engine::ops
