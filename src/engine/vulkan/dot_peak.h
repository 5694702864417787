#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "engine/vulkan/vulkan_commands.h"
#include "engine/vulkan/vulkan_instance.h"
#include "engine/vulkan/vulkan_pool.h"

namespace helix::engine {

// Dot products of bytes and nothing else, as a device's shaders do them: by its integer dot
// product, where it has one. What products with quantised matrices can reach without matrix cores.
class VulkanDotPeak {
  public:
    // invalid, unavailable: it cannot be opened.
    static base::Result<std::unique_ptr<VulkanDotPeak>> create(
        std::shared_ptr<const VulkanInstance> instance, const VulkanDeviceInfo& info);

    // So many dispatches, until they are done.
    base::Status run(std::int64_t dispatches, std::uint32_t rounds);
    // Multiplications and additions of one dispatch.
    static double operations(std::uint32_t rounds);
    // internal: what the last run of so many rounds has computed is wrong.
    base::Status check(std::uint32_t rounds);

  private:
    VulkanDotPeak() = default;

    std::shared_ptr<VulkanContext> context_;
    std::unique_ptr<VulkanCommands> commands_;
    VulkanMemoryPart results_;
};

}  // namespace helix::engine
