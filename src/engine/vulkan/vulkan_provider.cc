#include "engine/vulkan/vulkan_provider.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include <fmt/format.h>

#include "engine/backend/self_profile.h"
#include "engine/device/device_group.h"
#include "engine/ops/kv_type.h"
#include "engine/vulkan/vulkan_device.h"
#include "engine/vulkan/vulkan_groups.h"
#include "engine/vulkan/vulkan_physical_device.h"

namespace helix::engine {

namespace {

// "vulkan:0+vulkan:1", as --device has it.
std::string device_option(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "vulkan:" : "+vulkan:") + name;
    return text;
}

// invalid: the model is larger than the shaders take; names what.
base::Status check_sizes(const VulkanDeviceInfo& device, const model::ModelConfig& config) {
    const std::string name = fmt::format("vulkan:{} ({})", device.index, device.name);
    if (config.largest_head_dim() > kMaxHeadDim) {
        return base::invalid(fmt::format("the model's heads have {} dimensions; {} takes up to {}",
                                         config.largest_head_dim(), name, kMaxHeadDim));
    }
    const std::int64_t heads = std::int64_t{config.n_heads} * config.largest_head_dim();
    const std::int64_t rows =
        std::max({heads, std::int64_t{config.hidden}, std::int64_t{config.ffn},
                  std::int64_t{config.dense_ffn}, std::int64_t{config.shared_ffn},
                  std::int64_t{config.vocab}, std::int64_t{config.n_experts}});
    if (rows > kMaxOutputs) {
        return base::invalid(fmt::format("the model has a matrix of {} rows; {} takes up to {}",
                                         rows, name, kMaxOutputs));
    }
    return base::Ok{};
}

}  // namespace

base::Status check_ranks_of(std::span<const VulkanDeviceInfo> devices) {
    const VulkanDeviceInfo& first = devices.front();
    for (std::size_t i = 1; i < devices.size(); ++i) {
        const VulkanDeviceInfo& one = devices[i];
        if (one.name != first.name || one.driver != first.driver) {
            return base::invalid(fmt::format(
                "--device: vulkan:{} ({}, {}) and vulkan:{} ({}, {}) are not of one "
                "kind, and cannot be one worker; each can be a worker of its own",
                first.index, first.name, first.driver, one.index, one.name, one.driver));
        }
        const bool again =
            std::any_of(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(i),
                        [&](const VulkanDeviceInfo& other) { return other.index == one.index; });
        if (again && !one.software)
            return base::invalid(fmt::format("--device: vulkan:{} is named twice", one.index));
    }
    return base::Ok{};
}

base::Result<std::shared_ptr<BackendProvider>> VulkanProvider::create(
    const BackendOptions& options) {
    const std::vector<std::string>& names = options.devices;
    if (options.ranks != 1 && options.ranks != std::ssize(names)) {
        return base::invalid(
            fmt::format("--tp: each of {} ranks of --backend vulkan is a device, as in --device "
                        "vulkan:0+vulkan:1; {} {} named",
                        options.ranks, names.size(), names.size() == 1 ? "is" : "are"));
    }
    if (!options.cpus.empty())
        return base::invalid("--cpus: --backend vulkan computes on no cores of this machine");
    auto instance = VulkanInstance::create();
    if (!instance.ok()) {
        const std::string asked =
            names.empty() ? "--backend vulkan" : "--device " + device_option(names);
        return base::Error{instance.error().code,
                           asked + ": " + instance.error().message + "; there is --device cpu"};
    }
    std::vector<VulkanDeviceInfo> devices;
    for (const std::string& name : names.empty() ? std::vector<std::string>{""} : names) {
        const auto info = (*instance)->find(name);
        if (!info.ok()) return base::Error{info.error().code, "--device: " + info.error().message};
        devices.push_back(**info);
    }
    TRY_VOID(check_ranks_of(devices));
    return std::shared_ptr<BackendProvider>(
        std::make_shared<VulkanProvider>(*instance, std::move(devices)));
}

std::string VulkanProvider::processors() const {
    if (devices_.front().software) return "";
    std::string all;
    for (const VulkanDeviceInfo& device : devices_) {
        all += (all.empty() ? "" : "+") +
               (device.uuid.empty() ? std::to_string(device.index) : device.uuid);
    }
    return all;
}

base::Status VulkanProvider::prove() const {
    TRY([[maybe_unused]] const auto device, open(1));
    return base::Ok{};
}

DeviceMemory VulkanProvider::memory() const {
    const auto n = static_cast<std::int64_t>(devices_.size());
    DeviceMemory least;
    for (const VulkanDeviceInfo& device : devices_) {
        const std::int64_t named = std::count_if(
            devices_.begin(), devices_.end(),
            [&](const VulkanDeviceInfo& other) { return other.index == device.index; });
        const std::int64_t free = free_device_bytes(device);
        const std::int64_t offered = offered_device_bytes(device, free);
        if (least.bound.empty() || free / named < least.free_bytes)
            least = {free / named, "the device " + device.name, offered / named};
    }
    least.free_bytes *= n;
    least.offered_bytes *= n;
    if (n > 1) least.bound = fmt::format("{} devices {}", n, devices_.front().name);
    least.of_host = devices_.front().host_memory;
    return least;
}

base::Status VulkanProvider::check(const model::ModelConfig& config,
                                   std::int32_t /*threads*/) const {
    TRY_VOID(check_sizes(devices_.front(), config));
    return check_heads(ranks(), config);
}

base::Result<std::unique_ptr<Device>> VulkanProvider::open(int threads) const {
    std::vector<std::unique_ptr<Device>> devices;
    for (const VulkanDeviceInfo& info : devices_) {
        TRY(auto device, VulkanDevice::create(instance_, {.device = std::to_string(info.index),
                                                          .threads = threads}));
        devices.push_back(std::move(device));
    }
    if (devices.size() == 1) return std::move(devices.front());
    return std::unique_ptr<Device>(std::make_unique<DeviceGroup>(std::move(devices)));
}

base::Result<std::unique_ptr<Backend>> VulkanProvider::make_runner(
    std::shared_ptr<model::WeightSource> weights, const model::ModelConfig& config,
    const BackendRequest& request, RunnerOptions options) const {
    TRY(options.kv_type, ops::parse_kv_type(request.kv_type));
    options.block_size = request.block_size;
    TRY_VOID(check(config, request.threads));
    TRY(auto device, open(request.threads));
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
