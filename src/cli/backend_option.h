#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "model/model_config.h"
#include "node/worker_options.h"

// The options that say what workers compute with, one for each device; shared by `worker` and the
// workers inside `serve`.

namespace helix::cli {

struct BackendArguments {
    std::string backend;         // "" = as --device says, else cpu
    std::string device;          // "" = the first of the backend
    std::string memory;          // a size, or one for each device; "" = what the devices have
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
// What one worker computes with.
struct BackendChoice {
    std::string backend = "cpu";
    std::vector<std::string> devices = {};  // as engine::BackendOptions has them

    // As --device names it: "cpu", "vulkan:0+vulkan:1".
    std::string device() const;
};
// What --backend and --device say together: one for each worker. invalid: --device is not
// understood, or contradicts --backend; names both. Of `auto` it finds the best device, of `all`
// every GPU that is no software and computes correctly, and the CPU; the log says which.
base::Result<std::vector<BackendChoice>> choose_backends(const BackendArguments& arguments);

// The same of a command that computes with one. invalid: several.
base::Result<BackendChoice> choose_backend(const BackendArguments& arguments);

// What --memory asks for each device, 0 where it says nothing. invalid: several devices and one
// size, or a device that --device does not name; says which there are.
base::Result<std::vector<std::int64_t>> asked_memory(const std::string& memory,
                                                     const std::vector<BackendChoice>& choices);

// The options of the workers, one for each device: `common`, and memory, swap, migration rate,
// prefix cache, threads, speed, type and backend. Of several each has common's name with its device
// behind it, like "den-vulkan0", and its part of the host's memory and threads.
base::Result<std::vector<node::WorkerOptions>> make_workers(const BackendArguments& arguments,
                                                            const node::WorkerOptions& common);

}  // namespace helix::cli
