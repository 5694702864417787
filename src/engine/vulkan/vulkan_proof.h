#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/vulkan/integer_dot.h"
#include "engine/vulkan/vulkan_context.h"

namespace helix::engine {

// What a device has shown of its arithmetic. Sums, products, quotients, roots, exponentials,
// conversions and what is done to bits, across the edges of subgroups, are always the CPU's: a
// device where they are not is refused.
struct VulkanProof {
    bool fused_fma = false;  // by itself; else shaders round once with doubles
    bool keeps_subnormals = false;
    IntegerDot integer_dot = IntegerDot::none;
    bool unpacks_halves = false;  // into floats, by itself and exactly; else shaders do in integers
};

// right = sum + the dot product of 16 signed bytes, four to a word.
struct DotCase {
    std::int32_t sum;
    std::array<std::uint32_t, 4> w, x;
    std::int32_t right;
};
// Those that tell whether a device's integer dot product is right.
std::vector<DotCase> make_dot_cases();

// Runs the arithmetic that all shaders rely on, on numbers that tell right from wrong, and has the
// context use the shaders that suit. Subnormals may be lost: then numbers below 1.2e-38 are zeros,
// and results may differ there from those of other devices. An integer dot product that is wrong is
// not used. invalid: the device computes something else wrongly; names what.
base::Result<VulkanProof> prove(const std::shared_ptr<VulkanContext>& context,
                                std::span<const DotCase> dots);
base::Result<VulkanProof> prove(const std::shared_ptr<VulkanContext>& context);

}  // namespace helix::engine
