#include <cstring>

#include "base/index.h"
#include "engine/kernels/formats.h"

// Formats with codes (model/quant/codes.h) stay as they are in the file: a unit is the blocks of
// sixteen rows, one after the other, which the kernels decode. They are as small in memory so, and
// the tables of their grids are shared with those who read single rows.

namespace helix::engine::ops {
namespace {

using model::TensorType;

template <TensorType kType>
const Format& of_codes();

template <TensorType kType>
void pack_unit(const std::byte* const* blocks, std::byte* out) {
    const int bytes = of_codes<kType>().block_bytes;
    for (int row = 0; row < 16; ++row)
        std::memcpy(out + row * bytes, blocks[row], base::size_of(bytes));
}

template <TensorType kType>
const Format& of_codes() {
    static const Format kFormat = [] {
        const model::TensorTypeInfo& info = *model::tensor_type_info(kType);
        return Format{info.name, info.block_size, info.block_bytes, 16 * info.block_bytes,
                      true,      pack_unit<kType>};
    }();
    return kFormat;
}

}  // namespace

const Format& iq3_xxs_format() {
    return of_codes<TensorType::iq3_xxs>();
}

const Format& iq3_s_format() {
    return of_codes<TensorType::iq3_s>();
}

const Format& iq2_xxs_format() {
    return of_codes<TensorType::iq2_xxs>();
}

const Format& iq2_xs_format() {
    return of_codes<TensorType::iq2_xs>();
}

const Format& iq2_s_format() {
    return of_codes<TensorType::iq2_s>();
}

const Format& tq1_0_format() {
    return of_codes<TensorType::tq1_0>();
}

const Format& tq2_0_format() {
    return of_codes<TensorType::tq2_0>();
}

const Format& iq1_s_format() {
    return of_codes<TensorType::iq1_s>();
}

const Format& iq1_m_format() {
    return of_codes<TensorType::iq1_m>();
}

const Format& nvfp4_format() {
    return of_codes<TensorType::nvfp4>();
}

}  // namespace helix::engine::ops
