#pragma once

#include <memory>
#include <string>

#include "node/backend_provider.h"
#include "spec/cost_model.h"

namespace helix::node {

// Workers that take a modelled machine's time (engine::ModelledBackend).
class ModelledProvider final : public BackendProvider {
  public:
    // node.type and its measured times say which machine it is; time_scale 0.1 is ten times faster.
    ModelledProvider(spec::NodeSpec node, std::shared_ptr<const spec::CostModel> cost,
                     double time_scale)
        : node_(std::move(node)), cost_(std::move(cost)), time_scale_(time_scale) {}

    std::string name() const override { return "modelled"; }
    base::Result<std::unique_ptr<engine::Backend>> make(const BackendRequest& request) override;
    base::Result<SelfProfile> profile(const BackendRequest& request) override;

  private:
    spec::NodeSpec node_;
    std::shared_ptr<const spec::CostModel> cost_;
    double time_scale_;
};

}  // namespace helix::node
