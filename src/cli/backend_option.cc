#include "cli/backend_option.h"

#include <cctype>
#include <string_view>

#include <fmt/format.h>

#include "base/log.h"
#include "cli/size_option.h"
#include "engine/backends.h"
#include "engine/devices.h"

namespace helix::cli {
namespace {

constexpr std::string_view kVulkanDevice = "vulkan:";

// As drivers and other programs write it: small or capital letters, with or without hyphens.
std::string plain_uuid(std::string_view text) {
    std::string plain;
    for (const char c : text) {
        if (c != '-') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return plain.size() == 32 ? plain : std::string(text);
}

// "vulkan:0+vulkan:1" as "0+1"; "" = it does not name Vulkan devices.
std::string vulkan_devices(std::string_view text) {
    std::string devices;
    for (bool more = true; more;) {
        const std::size_t end = text.find('+');
        const std::string_view one = text.substr(0, end);
        if (!one.starts_with(kVulkanDevice) || one.size() == kVulkanDevice.size()) return "";
        devices += (devices.empty() ? "" : "+") + plain_uuid(one.substr(kVulkanDevice.size()));
        more = end != std::string_view::npos;
        if (more) text.remove_prefix(end + 1);
    }
    return devices;
}

BackendChoice automatic_choice() {
    const engine::VulkanList list = engine::list_vulkan_devices();
    const engine::VulkanDescription* best = engine::best_device(list);
    if (best != nullptr) {
        LOG_INFO("--device auto: vulkan:{} ({})", best->index, best->name);
        return {"vulkan", std::to_string(best->index)};
    }
    LOG_INFO("--device auto: cpu ({})",
             list.none.empty() ? "no GPU that computes correctly" : list.none);
    return {};
}

}  // namespace

base::Result<BackendChoice> choose_backend(const BackendArguments& a) {
    if (a.device.empty()) return BackendChoice{a.backend.empty() ? "cpu" : a.backend};
    BackendChoice choice;
    const std::string vulkan = vulkan_devices(a.device);
    if (!vulkan.empty()) {
        choice = {"vulkan", vulkan};
    } else if (a.device != "cpu" && a.device != "auto") {
        return base::invalid(fmt::format(
            "--device: '{}' is none of cpu, auto, vulkan:N, vulkan:UUID and several with + "
            "between them; 'helix devices' lists what there is",
            a.device));
    }
    if (!a.backend.empty() && (a.device == "auto" || a.backend != choice.backend)) {
        return base::invalid(
            fmt::format("--device {} contradicts --backend {}: --device alone is "
                        "enough",
                        a.device, a.backend));
    }
    return a.device == "auto" ? automatic_choice() : choice;
}

void add_backend_options(CLI::App& command, BackendArguments& a) {
    command.add_option("--backend", a.backend,
                       engine::backend_kinds_help() + " [as --device says, else cpu]");
    command.add_option(
        "--device", a.device,
        "what it computes with, as 'helix devices' lists it: cpu, vulkan:N or "
        "vulkan:UUID; auto: the first GPU that computes correctly, else cpu; "
        "vulkan:0+vulkan:1: several of one kind as one, each a tensor parallel rank");
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
        .add_option(
            "--tp", a.tp,
            "tensor parallel: groups of threads with their own part of every layer, on "
            "their own memory node; divides the model's key-value heads. Of GPUs --device says "
            "how many")
        ->capture_default_str();
    command.add_option("--speed", a.speed, "slow the engine down to this share, like 0.5");
    command.add_option("--type", a.type, "machine type, like T4; for modelled");
    command.add_option("--profiles", a.profiles, "folder of measured tables; for modelled");
    command.add_option("--profile", a.profile, "the tables' model, like llama2-70b; for modelled");
    command.add_option("--time-scale", a.time_scale,
                       "modelled time x this; 0.1 = ten times faster");
}

base::Status check_tensor_parallel(const node::WorkerOptions& options,
                                   const model::ModelConfig& config) {
    const auto checked = options.backend->check(config, options.threads);
    const char* option = options.backend->name() == "cpu" ? "--tp: " : "--device: ";
    if (!checked.ok()) return base::invalid(option + checked.error().message);
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
    TRY(const BackendChoice choice, choose_backend(a));
    TRY(options.backend,
        engine::make_backend_provider(choice.backend, {a.tp, a.cpus, a.type, a.profiles, a.profile,
                                                       a.time_scale, choice.device}));
    return base::Ok{};
}

}  // namespace helix::cli
