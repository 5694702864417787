#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/packed_matrix.h"

namespace helix::engine::ops {

// 32 columns of a panel, each weight as a whole number that is model::quant::kRaised too large,
// below 128.
struct alignas(64) DecodedBlock {
    std::byte w[512];    // [8][16 outputs][4 columns]
    float scale[2][16];  // of columns 0-15, of 16-31
};

// All blocks of a panel of a format that has codes (model/quant/codes.h). They are the thread's,
// until it asks for a panel again.
const DecodedBlock* decode_panel(const PackedMatrix& matrix, std::int64_t panel);

}  // namespace helix::engine::ops
