#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "base/random.h"
#include "engine/kernels/kernels.h"
#include "model/tensor_type.h"

namespace helix::engine::test {

using model::TensorType;

inline constexpr TensorType kAllTypes[] = {
    TensorType::f32,  TensorType::f16,  TensorType::bf16,   TensorType::q8_0, TensorType::q4_0,
    TensorType::q4_1, TensorType::q5_0, TensorType::q5_1,   TensorType::q3_k, TensorType::q4_k,
    TensorType::q5_k, TensorType::q6_k, TensorType::iq4_nl, TensorType::mxfp4};

inline std::vector<ops::Isa> machine_isas() {
    std::vector<ops::Isa> found;
    for (const ops::Isa isa : {ops::Isa::portable, ops::Isa::avx2, ops::Isa::avx512}) {
        if (ops::supported(isa)) found.push_back(isa);
    }
    return found;
}

// Roughly normal, with some exact zeros and some large values.
inline std::vector<float> random_floats(base::Random& random, std::size_t n, double scale = 1.0) {
    std::vector<float> values(n);
    for (float& v : values) {
        double sum = 0;
        for (int i = 0; i < 4; ++i) sum += random.uniform() - 0.5;
        if (random.chance(0.02)) sum = 0;
        if (random.chance(0.02)) sum *= 8;
        v = static_cast<float>(sum * scale);
    }
    return values;
}

// What a matrix is as stored, and the values it stands for.
struct StoredMatrix {
    std::vector<std::byte> bytes;
    std::vector<float> values;  // [rows, cols]
};

inline StoredMatrix random_matrix(base::Random& random, TensorType type, std::size_t rows,
                                  std::size_t cols) {
    const model::TensorTypeInfo& info = *model::tensor_type_info(type);
    StoredMatrix m;
    m.values = random_floats(random, rows * cols, 0.7);
    m.bytes.resize(rows * cols / static_cast<std::size_t>(info.block_size) *
                   static_cast<std::size_t>(info.block_bytes));
    model::quantize_row(type, m.values, m.bytes.data());
    model::dequantize_row(type, m.bytes, m.values.data());
    return m;
}

// As bits, so that NaNs and the sign of zero count.
inline bool same_bits(std::span<const float> a, std::span<const float> b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace helix::engine::test
