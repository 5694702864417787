#pragma once

#include <memory>
#include <string>
#include <utility>

#include "engine/backend/provider.h"
#include "engine/runner/model_runner.h"
#include "engine/vulkan/vulkan_instance.h"

namespace helix::engine {

// A device with a Vulkan driver.
class VulkanProvider final : public BackendProvider {
  public:
    VulkanProvider(std::shared_ptr<const VulkanInstance> instance, const VulkanDeviceInfo& info)
        : instance_(std::move(instance)), info_(info) {}
    // --device: index or UUID; "" = the first GPU. Errors say which devices there are.
    static base::Result<std::shared_ptr<BackendProvider>> create(const BackendOptions& options);

    std::string name() const override { return "vulkan"; }
    DeviceMemory memory() const override;
    base::Status check(const model::ModelConfig& /*config*/,
                       std::int32_t /*threads*/) const override {
        return base::Ok{};
    }
    base::Result<std::unique_ptr<Backend>> make(const BackendRequest& request) override;
    // Runs a middle layer of the model's shape, filled with made-up weights.
    base::Result<SelfProfile> profile(const BackendRequest& request) override;

  private:
    base::Result<std::unique_ptr<Backend>> make_runner(std::shared_ptr<model::WeightSource> weights,
                                                       const model::ModelConfig& config,
                                                       const BackendRequest& request,
                                                       RunnerOptions options) const;

    std::shared_ptr<const VulkanInstance> instance_;
    VulkanDeviceInfo info_;
};

}  // namespace helix::engine
