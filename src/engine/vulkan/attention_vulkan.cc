#include "engine/ops/attention.h"

#include "base/check.h"
#include "engine/vulkan/vulkan_device.h"

namespace helix::engine {

void VulkanDevice::attention(const ops::Attention& /*op*/) {
    CHECK(false);
}

}  // namespace helix::engine
