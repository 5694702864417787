#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/device/device.h"
#include "engine/kernels/kernels.h"
#include "engine/measure/device_speed.h"
#include "engine/vulkan/feature_proof.h"
#include "model/model_config.h"

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
    bool flushes_subnormals = false;
    FeatureProof integer_dot = FeatureProof::none;
    FeatureProof matrix_cores = FeatureProof::none;
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

// A device by itself, without a model.
struct NamedDevice {
    std::string name;    // as --device takes it: "cpu", "vulkan:0"
    std::string device;  // like "NVIDIA H200"; of "cpu" its processor, threads and instruction set
    std::string type;
    std::string driver;
    std::string uuid;
    // Opens it, as often as it is asked.
    std::function<base::Result<std::unique_ptr<Device>>(const model::ModelConfig& config)> open;
    // How many operations (multiplications and additions of bytes in dot products of four) it does
    // in a second where nothing is read or written, measured for about so long. Empty: of "cpu".
    std::function<base::Result<measure::Speed>(double budget_s)> dot_peak;
};
// isa: empty = the best of this machine.
NamedDevice cpu_device(std::optional<ops::Isa> isa = {});
// By index or UUID; "" = the first GPU. not_found: none such; says which there are.
base::Result<NamedDevice> vulkan_device(std::string_view device);

}  // namespace helix::engine
