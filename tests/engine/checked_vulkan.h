#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/vulkan/vulkan_provider.h"
#include "model/local_weights.h"

namespace helix::engine::test {

// The first Vulkan device of any kind, with the validation layers where they are installed. What
// they object to is kept. It has to outlive what computes on it.
class CheckedVulkan {
  public:
    // Null: there is no device. check_addresses: what shaders read and write, too, which is slow;
    // null also where there are no layers.
    static std::unique_ptr<CheckedVulkan> open(bool check_addresses = false) {
        std::unique_ptr<CheckedVulkan> made(new CheckedVulkan);
        auto instance = VulkanInstance::create({.validate = true,
                                                .check_addresses = check_addresses,
                                                .on_message = [kept = made.get()](auto text) {
                                                    const std::lock_guard lock(kept->mutex_);
                                                    kept->objections_ += std::string(text) + "\n";
                                                }});
        if (!instance.ok() && instance.error().code == base::Errc::unavailable && !check_addresses)
            instance = VulkanInstance::create();
        if (!instance.ok() || (*instance)->devices().empty()) return nullptr;
        made->instance_ = *instance;
        return made;
    }

    const std::shared_ptr<const VulkanInstance>& instance() const { return instance_; }
    std::shared_ptr<BackendProvider> provider() const {
        return std::make_shared<VulkanProvider>(
            instance_, std::vector<VulkanDeviceInfo>{instance_->devices()[0]});
    }
    // The model of a file.
    base::Result<std::unique_ptr<Backend>> open_backend(const std::string& path,
                                                        std::int32_t block_size) const {
        BackendRequest request;
        request.block_size = block_size;
        request.kv_type = "f16";
        request.memory_bytes = 64 << 20;
        request.threads = 1;
        request.weights = [&]() -> base::Result<std::shared_ptr<model::WeightSource>> {
            TRY(auto weights, model::LocalWeights::open(path));
            return std::shared_ptr<model::WeightSource>(std::move(weights));
        };
        return provider()->make(request);
    }
    std::string objections() {
        const std::lock_guard lock(mutex_);
        return objections_;
    }
    // Those that were expected.
    std::string take_objections() {
        const std::lock_guard lock(mutex_);
        return std::exchange(objections_, "");
    }

  private:
    CheckedVulkan() = default;

    std::mutex mutex_;
    std::string objections_;
    std::shared_ptr<const VulkanInstance> instance_;
};

}  // namespace helix::engine::test
