// helix profile --model FILE --output DIR

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "base/log.h"
#include "cli/backend_option.h"
#include "cli/command.h"
#include "cli/kv_option.h"
#include "cli/progress.h"
#include "cli/size_option.h"
#include "engine/backends.h"
#include "model/weight_source.h"
#include "node/machine_tables.h"
#include "spec/profile_tables.h"
#include "spec/profile_writer.h"
#include "spec/units.h"

namespace helix::cli {
namespace {

struct ProfileArguments {
    std::string model;
    model::WeightOptions weights;
    std::string output;
    std::string type;
    std::string name;
    std::string device;
    std::string memory;
    int threads = 0;
    std::string cpus;
    int tp = 1;
    std::string kv = "f16";
    int block_size = 16;
    int context = 512;
    int most_prompt = 2048;
    int most_sequences = 64;
    std::string budget = "30s";
    bool json = false;
};

std::string host_name() {
    std::array<char, 256> name = {};
    ::gethostname(name.data(), name.size() - 1);
    return name.data();
}

// Programs beside this one make every figure worse, and each run another one.
void warn_when_busy() {
    double load = 0;
    const auto cores = static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
    if (::getloadavg(&load, 1) != 1 || load < 0.5 * cores) return;
    LOG_WARN("this machine is busy (load {:.1f} on {:.0f} cores): it will measure as slower", load,
             cores);
}

base::Status check_options(const ProfileArguments& a) {
    const struct {
        const char* option;
        int value;
        int most;
    } numbers[] = {{"--block-size", a.block_size, 4096},
                   {"--context", a.context, 1 << 20},
                   {"--max-prompt", a.most_prompt, 8192},
                   {"--max-sequences", a.most_sequences, 256}};
    for (const auto& [option, value, most] : numbers) {
        if (value < 2 || value > most) {
            return base::invalid(fmt::format("{}: {}: expected 2 to {}", option, value, most));
        }
    }
    if (a.threads < 0) return base::invalid("--threads: expected a positive number");
    return base::Ok{};
}

base::Result<node::TableQuestion> table_question(const ProfileArguments& a) {
    TRY_VOID(check_options(a));
    node::TableQuestion question;
    question.model = a.model;
    question.weights = a.weights;
    question.type = a.type.empty() ? host_name() : a.type;
    question.name = a.name;
    if (!a.memory.empty()) {
        TRY(question.memory_bytes, parse_size("--memory", a.memory));
    }
    question.threads = a.threads;
    TRY_VOID(parse_kv("--kv", a.kv));
    question.kv_type = a.kv;
    question.request.block_size = a.block_size;
    BackendArguments device;
    device.device = a.device;
    TRY(const BackendChoice choice, choose_backend(device));
    engine::BackendOptions options;
    options.ranks = a.tp;
    options.cpus = a.cpus;
    options.devices = choice.devices;
    TRY(question.backend, engine::make_backend_provider(choice.backend, options));
    if (choice.backend != "cpu" && a.type.empty()) {
        question.type =
            fmt::format("{}-{}{}", host_name(), choice.backend, fmt::join(choice.devices, "-"));
    }
    question.request.context = a.context;
    question.request.most_prompt = a.most_prompt;
    question.request.most_sequences = a.most_sequences;
    TRY(const double budget_s, spec::parse_duration("--budget", a.budget));
    question.request.budget = base::from_seconds(budget_s);
    return question;
}

base::Status run_profile(const ProfileArguments& a) {
    TRY(node::TableQuestion question, table_question(a));
    TRY(node::TableSubject subject, node::prepare_tables(std::move(question)));
    warn_when_busy();
    node::MachineTables measured;
    {
        ProgressLine progress("measuring " + subject.spec.name);
        TRY(measured, node::measure_tables(subject, [&](double share) {
                progress.update(static_cast<std::uint64_t>(share * 1000), 1000);
            }));
    }
    TRY_VOID(spec::write_profile(a.output, measured.tables));
    // What was written is what others will read.
    const auto again = spec::ProfileTables::read(a.output, subject.spec.name);
    if (!again.ok()) return again.error();
    const std::string shown = a.json ? node::tables_json(subject, measured, a.output)
                                     : node::tables_text(subject, measured, a.output);
    std::fputs(shown.c_str(), stdout);
    return base::Ok{};
}

}  // namespace

void add_profile(App& app) {
    CLI::App* profile = app.parser.add_subcommand(
        "profile",
        "Measures how fast this machine, or a GPU of it, runs a model's layers, as tables");
    auto a = std::make_shared<ProfileArguments>();
    profile
        ->add_option("--model", a->model, "a GGUF file, a folder of safetensors, or OWNER/REPO:TAG")
        ->required();
    profile->add_option("--quantize", a->weights.quantize,
                        "q8_0 or q4_0: what a folder's matrices become when they are loaded");
    profile->add_option("--output", a->output, "folder for the tables; other machines' stay")
        ->required();
    profile->add_option("--device", a->device,
                        "what is measured, as 'helix devices' lists it: cpu, vulkan:N or "
                        "vulkan:UUID, vulkan:0+vulkan:1 as one, auto [cpu]");
    profile->add_option("--type", a->type,
                        "what this kind of machine is called [host name, and the GPU's after it]");
    profile->add_option("--name", a->name, "what the model is called [from the file]");
    profile->add_option("--threads", a->threads, "of the engine [one per core]");
    profile->add_option("--cpus", a->cpus, "pin the engine's threads to these cores, like 0-3");
    profile->add_option("--tp", a->tp, "tensor parallel ranks, as the worker will have")
        ->capture_default_str();
    profile->add_option("--memory", a->memory,
                        "for weights and KV cache, like 6GB [four fifths of what is free, of a GPU "
                        "nine tenths]");
    profile->add_option("--kv", a->kv, kKvHelp)->capture_default_str();
    profile->add_option("--block-size", a->block_size, "tokens of a KV page")
        ->capture_default_str();
    profile->add_option("--context", a->context, "tokens before those that are decoded")
        ->capture_default_str();
    profile->add_option("--max-prompt", a->most_prompt, "largest batch of prompt tokens")
        ->capture_default_str();
    profile->add_option("--max-sequences", a->most_sequences, "largest batch of decodes")
        ->capture_default_str();
    profile->add_option("--budget", a->budget, "about how long it may take")->capture_default_str();
    profile->add_flag("--json", a->json, "one JSON object instead of tables for people");
    profile->footer(
        "Examples:\n"
        "  helix profile --model llama.gguf --output profiles --type big-server\n"
        "  helix profile --model llama.gguf --output profiles --type laptop --threads 4 "
        "--memory 6GB\n"
        "  helix profile --model llama.gguf --output profiles --type rtx4090 --device vulkan:0");
    profile->callback([&app, a] {
        app.models = {&a->model};
        app.action = [a] { return run_profile(*a); };
    });
}

}  // namespace helix::cli
