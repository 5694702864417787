#include "engine/vulkan/vulkan_provider.h"

#include "engine/backend/self_profile.h"
#include "engine/ops/kv_type.h"
#include "engine/vulkan/vulkan_device.h"
#include "engine/vulkan/vulkan_physical_device.h"

namespace helix::engine {

base::Result<std::shared_ptr<BackendProvider>> VulkanProvider::create(
    const BackendOptions& options) {
    if (options.ranks != 1) return base::invalid("--tp: --backend vulkan has no ranks");
    if (!options.cpus.empty())
        return base::invalid("--cpus: --backend vulkan computes on no cores of this machine");
    auto instance = VulkanInstance::create();
    if (!instance.ok()) {
        const std::string asked =
            options.device.empty() ? "--backend vulkan" : "--device vulkan:" + options.device;
        return base::Error{instance.error().code,
                           asked + ": " + instance.error().message + "; there is --device cpu"};
    }
    const auto info = (*instance)->find(options.device);
    if (!info.ok()) return base::Error{info.error().code, "--device: " + info.error().message};
    return std::shared_ptr<BackendProvider>(std::make_shared<VulkanProvider>(*instance, **info));
}

DeviceMemory VulkanProvider::memory() const {
    DeviceMemory memory;
    memory.free_bytes = free_device_bytes(info_);
    memory.bound = "the device " + info_.name;
    memory.offered_bytes = offered_device_bytes(info_, memory.free_bytes);
    return memory;
}

base::Result<std::unique_ptr<Backend>> VulkanProvider::make_runner(
    std::shared_ptr<model::WeightSource> weights, const model::ModelConfig& config,
    const BackendRequest& request, RunnerOptions options) const {
    TRY(options.kv_type, ops::parse_kv_type(request.kv_type));
    options.block_size = request.block_size;
    const std::string index = std::to_string(info_.index);
    TRY(auto device,
        VulkanDevice::create(instance_, {.device = index, .threads = request.threads}));
    return ModelRunner::create(std::move(weights), config, std::move(device), std::move(options));
}

base::Result<std::unique_ptr<Backend>> VulkanProvider::make(const BackendRequest& request) {
    TRY(const std::shared_ptr<model::WeightSource> weights, request.weights());
    TRY(const model::ModelConfig config, model::read_model_config(*weights));
    RunnerOptions options;
    options.memory_bytes = request.memory_bytes;
    options.swap_bytes = request.swap_bytes;
    if (request.filter) options.filter = request.filter(weights);
    return make_runner(weights, config, request, std::move(options));
}

base::Result<SelfProfile> VulkanProvider::profile(const BackendRequest& request) {
    return profile_made_up_layer(
        request, [&](std::shared_ptr<model::WeightSource> weights, const model::ModelConfig& config,
                     std::int64_t memory_bytes) {
            RunnerOptions options;
            options.memory_bytes = memory_bytes;
            return make_runner(std::move(weights), config, request, std::move(options));
        });
}

}  // namespace helix::engine
