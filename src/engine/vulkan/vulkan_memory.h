#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/device/memory.h"
#include "engine/vulkan/vulkan_pool.h"

// What a Vulkan device holds. Shaders find all of it by its address.

namespace helix::engine {

class VulkanBuffer final : public Buffer {
  public:
    VulkanBuffer(std::int64_t floats, VulkanMemoryPart part)
        : Buffer(floats), part_(std::move(part)) {}
    VkDeviceAddress address() const { return part_.slice().address(); }
    // In floats.
    VulkanSlice part(std::int64_t first, std::int64_t count) const {
        return part_.slice().part(4 * first, 4 * count);
    }

  private:
    VulkanMemoryPart part_;
};

// count * rows * cols elements, in the form that matmul_vulkan.cc chooses.
class VulkanMatrix final : public Matrix {
  public:
    VulkanMatrix(const MatrixShape& shape, VulkanMemoryPart part)
        : Matrix(shape), part_(std::move(part)) {}
    VkDeviceAddress address() const { return part_.slice().address(); }
    const VulkanSlice& slice() const { return part_.slice(); }

  private:
    VulkanMemoryPart part_;
};

// The visits of a batch's rows, on the device only. Each array is of 32-bit words, in this order.
class VulkanRouting final : public Routing {
  public:
    std::int64_t rows = 0;
    std::int64_t n_experts = 0;
    std::int64_t n_used = 0;
    std::int64_t visits() const { return rows * n_used; }

    VkDeviceAddress chosen() const { return word(0); }                    // [rows, n_used] experts
    VkDeviceAddress chosen_weight() const { return word(1 * visits()); }  // [rows, n_used] floats
    VkDeviceAddress visit_of() const { return word(2 * visits()); }       // [rows, n_used]
    VkDeviceAddress visit_expert() const { return word(3 * visits()); }   // [visits], ascending
    VkDeviceAddress first_visit() const { return word(4 * visits()); }    // [n_experts + 1]
    std::int64_t bytes() const { return 4 * (4 * visits() + n_experts + 1); }

    VulkanMemoryPart part;

  private:
    VkDeviceAddress word(std::int64_t i) const {
        return part.slice().address() + static_cast<VkDeviceAddress>(4 * i);
    }
};

inline const VulkanBuffer& vulkan(const Buffer& buffer) {
    return static_cast<const VulkanBuffer&>(buffer);
}
inline const VulkanMatrix& vulkan(const Matrix& matrix) {
    return static_cast<const VulkanMatrix&>(matrix);
}
inline const VulkanRouting& vulkan(const Routing& routing) {
    return static_cast<const VulkanRouting&>(routing);
}

}  // namespace helix::engine
