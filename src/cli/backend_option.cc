#include "cli/backend_option.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/machine.h"
#include "cli/size_option.h"
#include "engine/cpu/cpu_backend.h"
#include "node/cpu_provider.h"
#include "node/modelled_provider.h"
#include "spec/profile_tables.h"

namespace helix::cli {

void add_backend_options(CLI::App& command, BackendArguments& a) {
    command.add_option("--backend", a.backend, "cpu, or modelled: real protocol, modelled time")
        ->capture_default_str();
    command.add_option("--memory", a.memory, "for weights and KV cache, like 6GB [what is free]");
    command.add_option("--swap", a.swap,
                       "memory besides, for the KV cache of requests that give way, like 2GB [0]");
    command.add_option("--migration-rate", a.migration_rate,
                       "the most KV cache of requests that move that goes to another worker in a "
                       "second, like 200MB; never more than half of the link [60MB for each of the "
                       "engine's threads, at most 1GB]");
    command.add_flag("--no-prefix-cache", a.no_prefix_cache,
                     "do not keep the KV cache of tokens that other requests may begin with");
    command.add_option("--threads", a.threads, "of the engine [one per core]");
    command.add_option("--cpus", a.cpus, "pin the engine's threads to these cores, like 0-3");
    command
        .add_option("--tp", a.tp,
                    "tensor parallel: groups of threads with their own part of every layer, on "
                    "their own memory node; divides the model's key-value heads")
        ->capture_default_str();
    command.add_option("--speed", a.speed, "slow the engine down to this share, like 0.5");
    command.add_option("--type", a.type, "machine type, like T4; for modelled");
    command.add_option("--profiles", a.profiles, "folder of measured tables; for modelled");
    command.add_option("--profile", a.profile, "the tables' model, like llama2-70b; for modelled");
    command.add_option("--time-scale", a.time_scale,
                       "modelled time x this; 0.1 = ten times faster");
}

base::Status check_tensor_parallel(const BackendArguments& a, const model::ModelConfig& config) {
    if (a.backend != "cpu") return base::Ok{};
    const auto checked =
        engine::check_ranks(a.tp, a.threads > 0 ? a.threads : base::usable_threads(), config);
    if (!checked.ok()) return base::invalid("--tp: " + checked.error().message);
    return base::Ok{};
}

base::Status fill_backend(const BackendArguments& a, node::WorkerOptions& options) {
    if (!a.memory.empty()) {
        TRY(options.memory_bytes, parse_size("--memory", a.memory));
    }
    if (!a.swap.empty()) {
        TRY(options.swap_bytes, parse_size("--swap", a.swap));
    }
    if (!a.migration_rate.empty()) {
        TRY(const std::int64_t rate, parse_size("--migration-rate", a.migration_rate));
        options.migration_bytes_per_s = static_cast<double>(rate);
    }
    options.prefix_cache = !a.no_prefix_cache;
    if (a.threads < 0) return base::invalid("--threads: expected a positive number");
    if (a.tp < 1) return base::invalid("--tp: expected a number of ranks, at least 1");
    if (a.threads > 0 && a.tp > a.threads) {
        return base::invalid(
            fmt::format("--tp: {} ranks need a thread each; --threads is {}", a.tp, a.threads));
    }
    if (!(a.speed > 0 && a.speed <= 1)) return base::invalid("--speed: expected 0 < share <= 1");
    options.threads = a.threads;
    options.speed = a.speed;
    options.type = a.type;
    if (a.backend == "cpu") {
        node::CpuProviderOptions cpu;
        if (!a.cpus.empty()) {
            TRY(cpu.cpus, parse_cpu_list("--cpus", a.cpus));
        }
        cpu.ranks = a.tp;
        options.backend = std::make_shared<node::CpuProvider>(std::move(cpu));
        return base::Ok{};
    }
    if (a.backend != "modelled") {
        return base::invalid("--backend: '" + a.backend + "' is neither cpu nor modelled");
    }
    if (a.tp != 1) return base::invalid("--tp: --backend modelled has no ranks");
    if (a.profiles.empty() || a.profile.empty() || a.type.empty()) {
        return base::invalid("--backend modelled needs --profiles DIR, --profile MODEL and --type");
    }
    if (!(a.time_scale > 0)) return base::invalid("--time-scale: expected a number above 0");
    TRY(auto tables, spec::ProfileTables::read(a.profiles, a.profile));
    spec::ClusterSpec self;
    self.nodes.emplace_back();
    self.nodes[0].name = a.type;
    self.nodes[0].type = a.type;
    TRY_VOID(tables.check(self));
    options.backend = std::make_shared<node::ModelledProvider>(
        self.nodes[0], std::make_shared<const spec::ProfileTables>(std::move(tables)),
        a.time_scale);
    return base::Ok{};
}

}  // namespace helix::cli
