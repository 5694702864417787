#include "engine/ops/matmul.h"

#include "base/check.h"
#include "engine/ops/experts.h"
#include "engine/vulkan/vulkan_device.h"
#include "engine/vulkan/vulkan_memory.h"

namespace helix::engine {

std::int64_t VulkanDevice::matrix_bytes(const MatrixShape& /*shape*/) const {
    CHECK(false);
}

base::Result<std::unique_ptr<Matrix>> VulkanDevice::make_matrix(
    const MatrixShape& /*shape*/, std::span<const std::byte> /*data*/) {
    return base::invalid("Vulkan multiplies by no matrices yet");
}

void VulkanDevice::matmul(const ops::Matmul& /*op*/) {
    CHECK(false);
}

void VulkanDevice::expert_matmul(const ops::ExpertMatmul& /*op*/) {
    CHECK(false);
}

}  // namespace helix::engine
