#include "engine/cpu/cpu_backend.h"

#include <utility>

namespace helix::engine {

base::Result<std::unique_ptr<Backend>> make_cpu_backend(
    std::shared_ptr<model::WeightSource> weights, model::ModelConfig config,
    const CpuOptions& options) {
    const CpuDeviceOptions& of_device = options;
    const RunnerOptions& of_runner = options;
    TRY(auto device, CpuDevice::create(of_device, config));
    return ModelRunner::create(std::move(weights), std::move(config), std::move(device), of_runner);
}

}  // namespace helix::engine
