#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/vulkan/integer_dot.h"

namespace helix::engine {

// A Vulkan device as its driver describes it, and what it has shown of its arithmetic.
struct VulkanDescription {
    int index = 0;  // in the loader's order
    std::string name;
    std::string type;    // "discrete GPU", "integrated GPU", "virtual GPU", "software" or "other"
    std::string driver;  // its name and version; "" where it does not say
    std::string uuid;    // 32 hexadecimal digits; "" where it does not say
    std::int64_t memory_bytes = 0;
    bool software = false;  // computes on this machine's processors
    std::string refused;    // why it cannot compute; "": it can, and the rest holds
    bool fused_fma = false;
    bool keeps_subnormals = false;
    IntegerDot integer_dot = IntegerDot::none;
};

struct VulkanList {
    std::vector<VulkanDescription> devices;
    std::string none;  // why there are no devices; "" where there are
};

// Opens every Vulkan device of this machine and has it prove its arithmetic, which takes moments.
VulkanList list_vulkan_devices();

// The first discrete GPU that is not refused, else the first such device that is no software. Null:
// none.
const VulkanDescription* best_device(const VulkanList& list);

}  // namespace helix::engine
