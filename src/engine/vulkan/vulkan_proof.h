#pragma once

#include <memory>

#include "base/result.h"
#include "engine/vulkan/vulkan_context.h"

namespace helix::engine {

// What a device has shown of its arithmetic. Sums, products, quotients, roots and exponentials
// across the edges of subgroups are always the CPU's: a device where they are not is refused.
struct VulkanProof {
    bool fused_fma = false;  // by itself; else shaders round once with doubles
    bool keeps_subnormals = false;
    bool integer_dot = false;  // has it; its integers are exact by definition
};

// Runs the arithmetic that all shaders rely on, on numbers that tell right from wrong, and has the
// context use the shaders that suit. Subnormals may be lost: then numbers below 1.2e-38 are zeros,
// and results may differ there from those of other devices. invalid: the device computes wrongly;
// names what.
base::Result<VulkanProof> prove(const std::shared_ptr<VulkanContext>& context);

}  // namespace helix::engine
