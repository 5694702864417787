#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "model/model_config.h"
#include "node/worker_options.h"

// The options that say what a worker computes with; shared by `worker` and the worker inside
// `serve`.

namespace helix::cli {

struct BackendArguments {
    std::string backend;         // "" = as --device says, else cpu
    std::string device;          // "" = the first of the backend
    std::string memory;          // a size; "" = what the machine has
    std::string swap;            // a size; "" = none
    std::string migration_rate;  // a size; "" = by the engine's threads
    bool no_prefix_cache = false;
    int threads = 0;   // 0 = one per core
    std::string cpus;  // a CPU list to pin to; "" = not pinned
    int tp = 1;        // tensor parallel ranks
    double speed = 1;  // below 1: slowed down, for trying unequal machines out on one
    std::string type;  // machine type, for modelled
    std::string profiles;
    std::string profile;  // model of the profiles
    double time_scale = 1;
};

void add_backend_options(CLI::App& command, BackendArguments& arguments);
// invalid: --tp, or the number of devices, does not suit the model. For whoever has it at hand; a
// worker that receives its model is told when it measures itself. options: filled.
base::Status check_tensor_parallel(const node::WorkerOptions& options,
                                   const model::ModelConfig& config);
// What --backend and --device say together; the device is as engine::BackendOptions has it.
struct BackendChoice {
    std::string backend = "cpu";
    std::string device = {};
};
// invalid: --device is not understood, or contradicts --backend; names both. Of `auto` it finds the
// best device, and the log says which.
base::Result<BackendChoice> choose_backend(const BackendArguments& arguments);

// Fills memory, swap, migration rate, prefix cache, threads, speed, type and backend.
base::Status fill_backend(const BackendArguments& arguments, node::WorkerOptions& options);

}  // namespace helix::cli
