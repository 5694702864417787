#pragma once

#include <string>
#include <vector>

#include "node/backend_provider.h"

namespace helix::node {

// engine::CpuBackend. cpus: cores to pin to, empty = not pinned.
class CpuProvider final : public BackendProvider {
  public:
    explicit CpuProvider(std::vector<int> cpus = {}) : cpus_(std::move(cpus)) {}

    std::string name() const override { return "cpu"; }
    base::Result<std::unique_ptr<engine::Backend>> make(const BackendRequest& request) override;
    // Runs a middle layer of the model's shape, filled with made-up weights: no transfer but the
    // header.
    base::Result<SelfProfile> profile(const BackendRequest& request) override;

  private:
    std::vector<int> cpus_;
};

}  // namespace helix::node
