#include "cli/backend_option.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/machine.h"
#include "base/split.h"
#include "cli/help_text.h"
#include "cli/size_option.h"
#include "engine/backend/memory_shares.h"
#include "engine/backends.h"
#include "engine/devices.h"
#include "node/worker_server.h"
#include "spec/units.h"

namespace helix::cli {
namespace {

constexpr std::string_view kVulkanDevice = "vulkan:";
// Threads of this machine that draw tokens for a device with processors of its own, at most.
constexpr int kMostDrawingThreads = 4;

// As drivers and other programs write it: small or capital letters, with or without hyphens.
std::string plain_uuid(std::string_view text) {
    std::string plain;
    for (const char c : text) {
        if (c != '-') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return plain.size() == 32 ? plain : std::string(text);
}

BackendChoice vulkan_choice(const engine::VulkanDescription& device) {
    return {"vulkan", {std::to_string(device.index)}};
}

std::string no_gpu(const engine::VulkanList& list) {
    return list.none.empty() ? "no GPU that computes correctly" : list.none;
}

BackendChoice automatic_choice() {
    const engine::VulkanList list = engine::list_vulkan_devices();
    const engine::VulkanDescription* best = engine::best_device(list);
    if (best != nullptr) {
        LOG_INFO("--device auto: vulkan:{} ({})", best->index, best->name);
        return vulkan_choice(*best);
    }
    LOG_INFO("--device auto: cpu ({})", no_gpu(list));
    return {};
}

std::vector<BackendChoice> all_choices() {
    const engine::VulkanList list = engine::list_vulkan_devices();
    std::vector<BackendChoice> all;
    std::string names;
    for (const engine::VulkanDescription& device : list.devices) {
        if (device.software || !device.refused.empty()) continue;
        all.push_back(vulkan_choice(device));
        names += fmt::format("vulkan:{} ({}), ", device.index, device.name);
    }
    LOG_INFO("--device all: {}cpu{}", names, all.empty() ? " (" + no_gpu(list) + ")" : "");
    all.emplace_back();
    return all;
}

// One worker's device, or several with + between them; nullopt: it is no such thing.
std::optional<BackendChoice> read_choice(std::string_view text) {
    if (text == "cpu") return BackendChoice{};
    BackendChoice choice{"vulkan"};
    for (const std::string_view one : base::split(text, '+')) {
        if (!one.starts_with(kVulkanDevice) || one.size() == kVulkanDevice.size()) return {};
        choice.devices.push_back(plain_uuid(one.substr(kVulkanDevice.size())));
    }
    return choice;
}

base::Result<std::vector<BackendChoice>> read_choices(std::string_view list) {
    std::vector<BackendChoice> choices;
    for (const std::string_view one : base::split(list, ',')) {
        const std::optional<BackendChoice> choice = read_choice(one);
        if (!choice) {
            return base::invalid(fmt::format(
                "--device: '{}' is none of cpu, auto, all, vulkan:N, vulkan:UUID and several with "
                "+ or , between them; 'helix devices' lists what there is",
                one));
        }
        for (const BackendChoice& other : choices) {
            if (other.device() == choice->device())
                return base::invalid(fmt::format("--device: {} is named twice", one));
        }
        choices.push_back(*choice);
    }
    return choices;
}

bool are_several(const std::vector<BackendChoice>& choices) {
    return choices.size() > 1;
}

}  // namespace

std::string BackendChoice::device() const {
    std::string text;
    for (const std::string& one : devices)
        text += (text.empty() ? "" : "+") + std::string(kVulkanDevice) + one;
    return text.empty() ? backend : text;
}

base::Result<std::vector<BackendChoice>> choose_backends(const BackendArguments& a) {
    if (a.device.empty()) return std::vector{BackendChoice{a.backend.empty() ? "cpu" : a.backend}};
    const bool found_out = a.device == "auto" || a.device == "all";
    std::vector<BackendChoice> choices;
    if (!found_out) {
        TRY(choices, read_choices(a.device));
    }
    const bool other = std::any_of(choices.begin(), choices.end(), [&](const BackendChoice& one) {
        return one.backend != a.backend;
    });
    if (!a.backend.empty() && (found_out || other)) {
        return base::invalid(
            fmt::format("--device {} contradicts --backend {}: --device alone is "
                        "enough",
                        a.device, a.backend));
    }
    if (a.device == "all") return all_choices();
    if (a.device == "auto") return std::vector{automatic_choice()};
    return choices;
}

base::Result<BackendChoice> choose_backend(const BackendArguments& a) {
    TRY(std::vector<BackendChoice> choices, choose_backends(a));
    if (are_several(choices)) {
        return base::invalid(
            fmt::format("--device: {} are {} devices; name one of them", a.device, choices.size()));
    }
    return std::move(choices[0]);
}

base::Result<std::vector<std::int64_t>> asked_memory(const std::string& memory,
                                                     const std::vector<BackendChoice>& choices) {
    std::vector<std::int64_t> asked(choices.size());
    if (memory.empty()) return asked;
    if (memory.find('=') == std::string::npos) {
        if (are_several(choices)) {
            return base::invalid(fmt::format(
                "--memory: of several devices say whose it is, like {}={}, with , between them",
                choices[0].device(), memory));
        }
        TRY(asked[0], parse_size("--memory", memory));
        return asked;
    }
    for (const std::string_view part : base::split(memory, ',')) {
        const std::size_t equals = std::min(part.find('='), part.size());
        const std::optional<BackendChoice> whose = read_choice(part.substr(0, equals));
        std::string names;
        std::int64_t* bytes = nullptr;
        for (std::size_t i = 0; i < choices.size(); ++i) {
            names += (i == 0 ? "" : ", ") + choices[i].device();
            if (whose && whose->device() == choices[i].device()) bytes = &asked[i];
        }
        if (bytes == nullptr || equals == part.size()) {
            return base::invalid(fmt::format(
                "--memory: '{}' is not the memory of one of the devices {}, like {}=6GB", part,
                names, choices[0].device()));
        }
        if (*bytes > 0)
            return base::invalid(fmt::format("--memory: {} is named twice", whose->device()));
        TRY(*bytes, parse_size("--memory", std::string(part.substr(equals + 1))));
    }
    return asked;
}

namespace {

void add_modelled_options(CLI::App& command, BackendArguments& a) {
    const OptionHeading heading(command, "A modelled engine");
    command.add_option("--type", a.type, "machine type, like T4; for modelled");
    command.add_option("--profiles", a.profiles, "folder of measured tables; for modelled");
    command.add_option("--profile", a.profile, "the tables' model, like llama2-70b; for modelled");
    command.add_option("--time-scale", a.time_scale,
                       "modelled time x this; 0.1 = ten times faster");
}

}  // namespace

void add_backend_options(CLI::App& command, BackendArguments& a) {
    const OptionHeading heading(command, "Devices and memory");
    command.add_option("--backend", a.backend,
                       engine::backend_kinds_help() + " [as --device says, else cpu]");
    command.add_option(
        "--device", a.device,
        "what it computes with, as 'helix devices' lists it: cpu, vulkan:N or "
        "vulkan:UUID; auto: the first GPU that computes correctly, else cpu; "
        "vulkan:0,cpu: a worker for each, named NAME-vulkan0 and NAME-cpu; all: so for every GPU "
        "that computes correctly and the CPU; "
        "vulkan:0+vulkan:1: several of one kind as one, each a tensor parallel rank");
    command.add_option("--memory", a.memory,
                       "for weights and KV cache, like 6GB; of several devices "
                       "vulkan:0=6GB,cpu=4GB [what is free]");
    command.add_option(
        "--swap", a.swap,
        "memory of this machine besides, for the KV cache of requests that give way, "
        "like 2GB, for each worker [0]");
    command.add_option("--migration-rate", a.migration_rate,
                       "the most KV cache of requests that move that goes to another worker in a "
                       "second, like 200MB; never more than half of the link [60MB for each of the "
                       "engine's threads, at most 1GB]");
    command.add_flag("--no-prefix-cache", a.no_prefix_cache,
                     "do not keep the KV cache of tokens that other requests may begin with");
    command.add_option("--threads", a.threads,
                       "of the engine, of all workers together [one per core]");
    command.add_option("--cpus", a.cpus, "pin the engine's threads to these cores, like 0-3");
    command
        .add_option(
            "--tp", a.tp,
            "tensor parallel: groups of threads with their own part of every layer, on "
            "their own memory node; divides the model's key-value heads. Of GPUs --device says "
            "how many")
        ->capture_default_str();
    command.add_option("--speed", a.speed, "slow the engine down to this share, like 0.5");
    add_modelled_options(command, a);
}

base::Status check_tensor_parallel(const node::WorkerOptions& options,
                                   const model::ModelConfig& config) {
    const auto checked = options.backend->check(config, options.threads);
    const char* option = options.backend->name() == "cpu" ? "--tp: " : "--device: ";
    if (!checked.ok()) return base::invalid(option + checked.error().message);
    return base::Ok{};
}

namespace {

base::Status fill_common(const BackendArguments& a, node::WorkerOptions& options) {
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
    return base::Ok{};
}

// --tp and --cpus are the CPU's where it is one of several.
base::Status fill_provider(const BackendArguments& a, const std::vector<BackendChoice>& choices,
                           const BackendChoice& choice, node::WorkerOptions& options) {
    const bool has_cpu = std::any_of(choices.begin(), choices.end(),
                                     [](const BackendChoice& one) { return one.backend == "cpu"; });
    const bool left_to_cpu = has_cpu && choice.backend != "cpu";
    TRY(options.backend,
        engine::make_backend_provider(
            choice.backend, {left_to_cpu ? 1 : a.tp, left_to_cpu ? "" : a.cpus, a.type, a.profiles,
                             a.profile, a.time_scale, choice.devices}));
    return base::Ok{};
}

// The cores are the CPU's, but for a few that draw the tokens of the others.
void share_threads(const std::vector<BackendChoice>& choices, int tp,
                   std::vector<node::WorkerOptions>& workers) {
    const int all = workers[0].threads > 0 ? workers[0].threads : base::usable_threads();
    const auto n = static_cast<int>(workers.size());
    const int drawing = std::clamp(all / (2 * n), 1, kMostDrawingThreads);
    for (std::size_t i = 0; i < workers.size(); ++i) {
        const bool is_cpu = choices[i].backend == "cpu";
        workers[i].threads = is_cpu ? std::max({1, tp, all - drawing * (n - 1)}) : drawing;
    }
}

base::Status share_memory(const BackendArguments& a, const std::vector<BackendChoice>& choices,
                          std::vector<node::WorkerOptions>& workers) {
    TRY(const std::vector<std::int64_t> asked, asked_memory(a.memory, choices));
    if (choices[0].backend == "modelled") {  // which takes none
        workers[0].memory_bytes = asked[0];
        return base::Ok{};
    }
    if (a.memory.empty() && !are_several(choices)) return base::Ok{};  // what it has when it joins
    std::vector<engine::MemoryWish> wishes;
    for (std::size_t i = 0; i < workers.size(); ++i)
        wishes.push_back({choices[i].device(), workers[i].backend->memory(), asked[i]});
    TRY(const std::vector<std::int64_t> shares,
        engine::share_memory(wishes, engine::host_memory()));
    for (std::size_t i = 0; i < workers.size(); ++i) workers[i].memory_bytes = shares[i];
    return base::Ok{};
}

// invalid: two of them are one device, by its number and by its UUID.
base::Status check_different(const std::vector<BackendChoice>& choices,
                             const std::vector<node::WorkerOptions>& workers) {
    for (std::size_t i = 0; i < workers.size(); ++i) {
        const std::string processors = workers[i].backend->processors();
        for (std::size_t k = 0; k < i && !processors.empty(); ++k) {
            if (workers[k].backend->processors() != processors) continue;
            return base::invalid(fmt::format("--device: {} and {} are one device",
                                             choices[k].device(), choices[i].device()));
        }
    }
    return base::Ok{};
}

}  // namespace

base::Result<std::vector<node::WorkerOptions>> make_workers(const BackendArguments& a,
                                                            const node::WorkerOptions& common) {
    node::WorkerOptions one = common;
    TRY_VOID(fill_common(a, one));
    TRY(const std::vector<BackendChoice> choices, choose_backends(a));
    std::vector<node::WorkerOptions> workers(choices.size(), one);
    for (std::size_t i = 0; i < choices.size(); ++i)
        TRY_VOID(fill_provider(a, choices, choices[i], workers[i]));
    TRY_VOID(check_different(choices, workers));
    TRY_VOID(share_memory(a, choices, workers));
    if (!are_several(choices)) return workers;
    share_threads(choices, a.tp, workers);
    for (std::size_t i = 0; i < choices.size(); ++i) {
        std::string device = choices[i].device();
        std::erase(device, ':');
        std::replace(device.begin(), device.end(), '+', '-');
        TRY(workers[i].name, node::name_of_several(common.name, common.key, device));
        LOG_INFO("{} is worker \"{}\": {} of memory, {} threads", choices[i].device(),
                 workers[i].name, spec::format_bytes(workers[i].memory_bytes), workers[i].threads);
    }
    return workers;
}

}  // namespace helix::cli
