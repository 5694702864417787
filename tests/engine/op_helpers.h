#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "base/effort.h"
#include "base/random.h"
#include "engine/kernels/kernels.h"
#include "engine/proof/made_data.h"
#include "model/quant/codes.h"
#include "model/tensor_type.h"

namespace helix::engine::test {

using model::TensorType;

using proof::kAllTypes;
using proof::random_floats;
using proof::random_matrix;
using proof::StoredMatrix;

// Formats of codes are decoded by what reads single rows, too, and then multiplied alike: under
// sanitizers one that has a scale for 32 columns and one that has two stand for them.
inline std::vector<TensorType> types_of_kernels() {
    std::vector<TensorType> types;
    for (const TensorType type : kAllTypes) {
        const bool stands_for_all = type == TensorType::iq3_s || type == TensorType::iq2_xs;
        if (!kSanitized || stands_for_all || model::quant::find_decoder(type) == nullptr)
            types.push_back(type);
    }
    return types;
}

inline std::vector<ops::Isa> machine_isas() {
    std::vector<ops::Isa> found;
    for (const ops::Isa isa : {ops::Isa::portable, ops::Isa::avx2, ops::Isa::avx512}) {
        if (ops::supported(isa)) found.push_back(isa);
    }
    return found;
}

// As bits, so that NaNs and the sign of zero count.
inline bool same_bits(std::span<const float> a, std::span<const float> b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace helix::engine::test
