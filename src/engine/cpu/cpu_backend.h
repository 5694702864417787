#pragma once

#include <memory>

#include "engine/backend/backend.h"
#include "engine/cpu/cpu_device.h"
#include "engine/runner/model_runner.h"
#include "model/model_config.h"
#include "model/weight_source.h"

namespace helix::engine {

struct CpuOptions : CpuDeviceOptions, RunnerOptions {};

// A model on the cores of this machine. invalid: an architecture, shape or option that cannot be
// run.
base::Result<std::unique_ptr<Backend>> make_cpu_backend(
    std::shared_ptr<model::WeightSource> weights, model::ModelConfig config,
    const CpuOptions& options);

}  // namespace helix::engine
