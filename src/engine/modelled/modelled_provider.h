#pragma once

#include <memory>
#include <string>
#include <utility>

#include "engine/backend/provider.h"
#include "spec/cost_model.h"

namespace helix::engine {

// A machine that takes a modelled one's time (ModelledBackend).
class ModelledProvider final : public BackendProvider {
  public:
    // node.type and its measured times say which machine it is; time_scale 0.1 is ten times faster.
    ModelledProvider(spec::NodeSpec node, std::shared_ptr<const spec::CostModel> cost,
                     double time_scale)
        : node_(std::move(node)), cost_(std::move(cost)), time_scale_(time_scale) {}
    // --profiles, --profile, --type and --time-scale.
    static base::Result<std::shared_ptr<BackendProvider>> create(const BackendOptions& options);

    std::string name() const override { return "modelled"; }
    DeviceMemory memory() const override { return host_memory(); }
    base::Status check(const model::ModelConfig& /*config*/,
                       std::int32_t /*threads*/) const override {
        return base::Ok{};
    }
    base::Result<std::unique_ptr<Backend>> make(const BackendRequest& request) override;
    base::Result<SelfProfile> profile(const BackendRequest& request) override;

  private:
    spec::NodeSpec node_;
    std::shared_ptr<const spec::CostModel> cost_;
    double time_scale_;
};

}  // namespace helix::engine
