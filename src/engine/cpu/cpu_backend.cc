#include "engine/cpu/cpu_backend.h"

#include <utility>

namespace helix::engine {

base::Result<std::unique_ptr<Backend>> make_cpu_backend(
    std::shared_ptr<model::WeightSource> weights, model::ModelConfig config,
    const CpuOptions& options) {
    TRY(auto device, CpuDevice::create(options, config));
    return ModelRunner::create(std::move(weights), std::move(config), std::move(device), options);
}

}  // namespace helix::engine
