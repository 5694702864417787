#include <cstring>

#include "engine/kernels/formats.h"

// Formats with codes (model/quant/codes.h) stay as they are in the file: a unit is the blocks of
// sixteen rows, one after the other, which the kernels decode. They are as small in memory so, and
// the tables of their grids are shared with those who read single rows.

namespace helix::engine::ops {
namespace {

template <int kBytes>
void pack_unit(const std::byte* const* blocks, std::byte* out) {
    for (int row = 0; row < 16; ++row) std::memcpy(out + row * kBytes, blocks[row], kBytes);
}

template <int kBytes>
constexpr Format of_256(const char* name) {
    return {name, 256, kBytes, 16 * kBytes, true, pack_unit<kBytes>};
}

}  // namespace

const Format& iq3_xxs_format() {
    static constexpr Format kFormat = of_256<98>("iq3_xxs");
    return kFormat;
}

const Format& iq3_s_format() {
    static constexpr Format kFormat = of_256<110>("iq3_s");
    return kFormat;
}

const Format& iq2_xxs_format() {
    static constexpr Format kFormat = of_256<66>("iq2_xxs");
    return kFormat;
}

const Format& iq2_xs_format() {
    static constexpr Format kFormat = of_256<74>("iq2_xs");
    return kFormat;
}

const Format& iq2_s_format() {
    static constexpr Format kFormat = of_256<82>("iq2_s");
    return kFormat;
}

const Format& tq1_0_format() {
    static constexpr Format kFormat = of_256<54>("tq1_0");
    return kFormat;
}

const Format& tq2_0_format() {
    static constexpr Format kFormat = of_256<66>("tq2_0");
    return kFormat;
}

}  // namespace helix::engine::ops
