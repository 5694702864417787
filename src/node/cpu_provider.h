#pragma once

#include <string>
#include <utility>
#include <vector>

#include "node/backend_provider.h"

namespace helix::node {

struct CpuProviderOptions {
    std::vector<int> cpus;  // cores to pin the threads to; empty = not pinned
    bool kv_f32 = false;    // KV cache in f32 instead of f16
};

// engine::CpuBackend.
class CpuProvider final : public BackendProvider {
  public:
    explicit CpuProvider(CpuProviderOptions options = {}) : options_(std::move(options)) {}

    std::string name() const override { return "cpu"; }
    base::Result<std::unique_ptr<engine::Backend>> make(const BackendRequest& request) override;
    // Runs a middle layer of the model's shape, filled with made-up weights: no transfer but the
    // header.
    base::Result<SelfProfile> profile(const BackendRequest& request) override;

  private:
    CpuProviderOptions options_;
};

}  // namespace helix::node
