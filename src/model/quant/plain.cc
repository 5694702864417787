#include "model/quant/plain.h"

#include <cstring>

#include "model/quant/half.h"

namespace helix::model::quant {
namespace {

void copy_from(const std::byte* bytes, std::size_t n, float* out) {
    std::memcpy(out, bytes, n * sizeof(float));
}

void copy_to(const float* values, std::size_t n, std::byte* out) {
    std::memcpy(out, values, n * sizeof(float));
}

template <float (*Widen)(std::uint16_t)>
void widen(const std::byte* bytes, std::size_t n, float* out) {
    for (std::size_t i = 0; i < n; ++i) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, bytes + i * sizeof bits, sizeof bits);
        out[i] = Widen(bits);
    }
}

template <std::uint16_t (*Narrow)(float)>
void narrow(const float* values, std::size_t n, std::byte* out) {
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint16_t bits = Narrow(values[i]);
        std::memcpy(out + i * sizeof bits, &bits, sizeof bits);
    }
}

}  // namespace

const Format kF32{TensorType::f32, {"f32", 1, 4}, copy_from, copy_to};
const Format kF16{TensorType::f16, {"f16", 1, 2}, widen<half_to_float>, narrow<float_to_half>};
const Format kBf16{
    TensorType::bf16, {"bf16", 1, 2}, widen<bfloat_to_float>, narrow<float_to_bfloat>};

}  // namespace helix::model::quant
