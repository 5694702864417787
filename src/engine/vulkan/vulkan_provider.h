#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/provider.h"
#include "engine/runner/model_runner.h"
#include "engine/vulkan/vulkan_instance.h"

namespace helix::engine {

// invalid: --device names devices that cannot be the ranks of one worker. Those of one kind (name
// and driver) compute the same bits; only a device of software may be named twice, to try it out.
base::Status check_ranks_of(std::span<const VulkanDeviceInfo> devices);

// A device with a Vulkan driver, or several of one kind: one for each tensor parallel rank.
class VulkanProvider final : public BackendProvider {
  public:
    VulkanProvider(std::shared_ptr<const VulkanInstance> instance,
                   std::vector<VulkanDeviceInfo> devices)
        : instance_(std::move(instance)), devices_(std::move(devices)) {}
    // --device: as BackendOptions has it. Errors say which devices there are. invalid: devices of
    // different kinds, or one that is no software twice; other ranks than devices.
    static base::Result<std::shared_ptr<BackendProvider>> create(const BackendOptions& options);

    std::string name() const override { return "vulkan"; }
    std::int32_t ranks() const override { return static_cast<std::int32_t>(devices_.size()); }
    // The UUIDs of its devices; "" of software, which computes on this machine's cores.
    std::string processors() const override;
    base::Status prove() const override;
    // Of all devices together: as many times as there are that of the one with the least.
    DeviceMemory memory() const override;
    // invalid: the ranks cannot share the heads, or heads or matrices are larger than shaders take.
    base::Status check(const model::ModelConfig& config, std::int32_t threads) const override;
    base::Result<std::unique_ptr<Backend>> make(const BackendRequest& request) override;
    // Runs a middle layer of the model's shape, filled with made-up weights.
    base::Result<SelfProfile> profile(const BackendRequest& request) override;

  private:
    base::Result<std::unique_ptr<Device>> open(int threads) const;
    base::Result<std::unique_ptr<Backend>> make_runner(std::shared_ptr<model::WeightSource> weights,
                                                       const model::ModelConfig& config,
                                                       const BackendRequest& request,
                                                       RunnerOptions options) const;

    std::shared_ptr<const VulkanInstance> instance_;
    std::vector<VulkanDeviceInfo> devices_;
};

}  // namespace helix::engine
