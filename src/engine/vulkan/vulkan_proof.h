#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/vulkan/feature_proof.h"
#include "engine/vulkan/vulkan_context.h"

namespace helix::engine {

// What a device has shown of its arithmetic. Sums, products, quotients, roots, exponentials,
// conversions and what is done to bits, across the edges of subgroups, are always the CPU's: a
// device where they are not is refused.
struct VulkanProof {
    bool fused_fma = false;           // by itself; else shaders round once with doubles
    bool flushes_subnormals = false;  // as the CPU's kernels do
    FeatureProof integer_dot = FeatureProof::none;
    FeatureProof matrix_cores = FeatureProof::none;
    bool unpacks_halves = false;  // into floats, by itself and exactly; else shaders do in integers
};

// The dot product of four signed bytes with four.
std::uint32_t dot_of_words(std::uint32_t a, std::uint32_t b);

// right = sum + the dot product of 16 signed bytes, four to a word.
struct DotCase {
    std::int32_t sum;
    std::array<std::uint32_t, 4> w, x;
    std::int32_t right;
};
// Those that tell whether a device's integer dot product is right.
std::vector<DotCase> make_dot_cases();

// right, of each row and output: the products' sum, times (the output's scale times the row's).
struct MatrixCase {
    std::array<std::array<std::uint32_t, 8>, 16> outputs;  // signed bytes, four to a word
    std::array<std::array<std::uint32_t, 8>, 16> rows;
    std::array<float, 16> output_scales, row_scales;
    std::array<std::array<float, 16>, 16> right;  // [row][output]
};
// Those that tell whether a device's matrix cores are right.
std::vector<MatrixCase> make_matrix_cases();

// Runs the arithmetic that all shaders rely on, on numbers that tell right from wrong, and has the
// context use the shaders that suit. A device may keep subnormals: then results below 1.2e-38 may
// differ from those of other devices, where they are zeros. An integer dot product and matrix
// cores that are wrong are not used. invalid: the device computes something else wrongly; names
// what.
base::Result<VulkanProof> prove(const std::shared_ptr<VulkanContext>& context,
                                std::span<const DotCase> dots,
                                std::span<const MatrixCase> matrices);
base::Result<VulkanProof> prove(const std::shared_ptr<VulkanContext>& context);

}  // namespace helix::engine
