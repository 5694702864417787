#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "engine/device/device.h"
#include "model/tensor_type.h"

// Numbers that operators are tried with, and their way to a device and back.

namespace helix::engine::proof {

// Every format of a weight matrix.
inline constexpr model::TensorType kAllTypes[] = {
    model::TensorType::f32,     model::TensorType::f16,     model::TensorType::bf16,
    model::TensorType::q8_0,    model::TensorType::q4_0,    model::TensorType::q4_1,
    model::TensorType::q5_0,    model::TensorType::q5_1,    model::TensorType::q3_k,
    model::TensorType::q4_k,    model::TensorType::q5_k,    model::TensorType::q6_k,
    model::TensorType::iq4_nl,  model::TensorType::mxfp4,   model::TensorType::q2_k,
    model::TensorType::iq4_xs,  model::TensorType::iq3_xxs, model::TensorType::iq3_s,
    model::TensorType::iq2_xxs, model::TensorType::iq2_xs,  model::TensorType::iq2_s,
    model::TensorType::iq1_s,   model::TensorType::iq1_m,   model::TensorType::tq1_0,
    model::TensorType::tq2_0,   model::TensorType::nvfp4,   model::TensorType::fp8,
    model::TensorType::int4};

// Roughly normal, with some exact zeros and some large values.
std::vector<float> random_floats(base::Random& random, std::size_t n, double scale = 1.0);

// What a matrix is as stored, and the values it stands for.
struct StoredMatrix {
    std::vector<std::byte> bytes;
    std::vector<float> values;  // [rows, cols]
};
// cols: a multiple of the format's block.
StoredMatrix random_matrix(base::Random& random, model::TensorType type, std::size_t rows,
                           std::size_t cols);
// cols, rounded up to whole blocks of the format.
std::int64_t fitting_cols(model::TensorType type, std::int64_t cols);

// Of not-a-numbers: what an operator does not write shows.
base::Result<std::unique_ptr<Buffer>> poisoned_buffer(Device& device, std::int64_t floats);
// Appends all that the buffer holds.
base::Status read_all(Device& device, const Buffer& buffer, std::vector<float>& to);

// Compares as bits, but a NaN is as good as another, since devices choose its payload. "": they are
// the same; else like "float 3 of 8 is 0.5, not 0.25".
std::string first_difference(std::span<const float> got, std::span<const float> right);

}  // namespace helix::engine::proof
