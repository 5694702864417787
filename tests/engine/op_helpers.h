#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "base/random.h"
#include "engine/kernels/kernels.h"
#include "engine/proof/made_data.h"
#include "model/tensor_type.h"

namespace helix::engine::test {

using model::TensorType;

using proof::kAllTypes;
using proof::random_floats;
using proof::random_matrix;
using proof::StoredMatrix;

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
