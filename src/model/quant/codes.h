#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "model/tensor_type.h"

namespace helix::model::quant {

// 32 elements as whole numbers times a scale for each sixteen: value[i] = scale[i / 16] * (q[i] -
// kRaised).
struct Codes {
    std::uint8_t q[32];
    float scale[2];
};
constexpr int kRaised = 64;

// Elements 32 part ... 32 part + 31 of a block. The scales' products with differences are exact.
using Decode = void (*)(const std::byte* block, int part, Codes& codes);

// nullptr for a type whose elements are not so given.
Decode find_decoder(TensorType type);
// The words of its grid (grids.h); empty for a type whose codes number no points of one.
std::span<const std::uint32_t> find_grid(TensorType type);

// A format's dequantize() by way of its codes. kParts: of 32 elements in a block.
template <Decode kDecode, int kParts, std::size_t kBlockBytes>
void dequantize_codes(const std::byte* bytes, std::size_t blocks, float* out) {
    for (std::size_t b = 0; b < blocks; ++b, bytes += kBlockBytes) {
        for (int part = 0; part < kParts; ++part, out += 32) {
            Codes codes;
            kDecode(bytes, part, codes);
            for (int i = 0; i < 32; ++i)
                out[i] = codes.scale[i / 16] * static_cast<float>(codes.q[i] - kRaised);
        }
    }
}

// A format's quantize() by way of what makes a block of kElements values.
template <auto kQuantizeBlock, std::size_t kElements>
void quantize_blocks(const float* values, std::size_t blocks, std::byte* out) {
    for (std::size_t b = 0; b < blocks; ++b) {
        const auto block = kQuantizeBlock(values + b * kElements);
        std::memcpy(out + b * sizeof block, &block, sizeof block);
    }
}

inline unsigned byte_at(const std::byte* bytes, int i) {
    return static_cast<unsigned>(bytes[i]);
}
inline std::uint16_t load_u16(const std::byte* bytes) {
    std::uint16_t value = 0;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}
inline std::uint32_t load_u32(const std::byte* bytes) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

}  // namespace helix::model::quant
