#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/provider.h"
#include "engine/cpu/cpu_backend.h"

namespace helix::engine {

struct CpuProviderOptions {
    std::vector<int> cpus;  // cores to pin the threads to; empty = not pinned
    int ranks = 1;          // tensor parallel, see CpuDeviceOptions
};

// The cores of this machine.
class CpuProvider final : public BackendProvider {
  public:
    explicit CpuProvider(CpuProviderOptions options = {}) : options_(std::move(options)) {}
    // --tp and --cpus.
    static base::Result<std::shared_ptr<BackendProvider>> create(const BackendOptions& options);

    std::string name() const override { return "cpu"; }
    std::int32_t ranks() const override { return options_.ranks; }
    // Of the cores that this process may use; threads may be 0: as many as it pins, or all.
    double core_share(std::int32_t threads) const override;
    DeviceMemory memory() const override { return host_memory(); }
    base::Status check(const model::ModelConfig& config, std::int32_t threads) const override;
    base::Result<std::unique_ptr<Backend>> make(const BackendRequest& request) override;
    // Runs a middle layer of the model's shape, filled with made-up weights: no transfer but the
    // header.
    base::Result<SelfProfile> profile(const BackendRequest& request) override;

  private:
    base::Result<CpuOptions> cpu_options(const BackendRequest& request) const;

    CpuProviderOptions options_;
};

}  // namespace helix::engine
