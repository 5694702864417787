#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/cpu/cpu_backend.h"
#include "node/backend_provider.h"

namespace helix::node {

struct CpuProviderOptions {
    std::vector<int> cpus;  // cores to pin the threads to; empty = not pinned
    int ranks = 1;          // tensor parallel, see engine::CpuOptions
};

// engine::CpuBackend.
class CpuProvider final : public BackendProvider {
  public:
    explicit CpuProvider(CpuProviderOptions options = {}) : options_(std::move(options)) {}

    std::string name() const override { return "cpu"; }
    std::int32_t ranks() const override { return options_.ranks; }
    base::Result<std::unique_ptr<engine::Backend>> make(const BackendRequest& request) override;
    // Runs a middle layer of the model's shape, filled with made-up weights: no transfer but the
    // header.
    base::Result<SelfProfile> profile(const BackendRequest& request) override;

  private:
    base::Result<engine::CpuOptions> engine_options(const BackendRequest& request) const;

    CpuProviderOptions options_;
};

}  // namespace helix::node
