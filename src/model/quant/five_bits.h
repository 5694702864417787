#pragma once

#include <cstdint>

namespace helix::model::quant {

// Element i (0-31) of the blocks that keep four bits in `low` and the fifth in `high`.
template <typename Block>
int five_bits(const Block& block, int i) {
    const int low = i < 16 ? block.low[i] & 15 : block.low[i - 16] >> 4;
    return low | (((block.high[i / 8] >> (i % 8)) & 1) << 4);
}

// Sets the element, whose bits must be zero before.
template <typename Block>
void put_five_bits(Block& block, int i, unsigned q) {
    std::uint8_t& low = block.low[i % 16];
    std::uint8_t& high = block.high[i / 8];
    low = static_cast<std::uint8_t>(low | ((q & 15U) << (i < 16 ? 0U : 4U)));
    high = static_cast<std::uint8_t>(high | ((q >> 4U) << static_cast<unsigned>(i % 8)));
}

}  // namespace helix::model::quant
