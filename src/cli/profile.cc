// helix profile --model FILE --output DIR

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/machine.h"
#include "cli/command.h"
#include "cli/kv_option.h"
#include "cli/progress.h"
#include "cli/size_option.h"
#include "engine/cpu/cpu_backend.h"
#include "model/gguf.h"
#include "model/model_config.h"
#include "model/weight_source.h"
#include "node/machine_profile.h"
#include "node/worker_session.h"
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

// So many bytes of weights are measured together: more than caches hold, so that each batch reads
// them from memory, as a worker with many layers does.
constexpr std::int64_t kMeasuredBytes = std::int64_t{256} << 20U;
// Of the machine's memory, for the contexts that are decoded.
constexpr std::int64_t kPageShare = 4;
// What stays free for KV beside layers, unless one whole context needs less (plan::MemoryRule).
constexpr double kKvReserve = 0.2;
// A spread above this makes a table that another run would not repeat.
constexpr double kNoisy = 0.15;

std::string host_name() {
    std::array<char, 256> name = {};
    ::gethostname(name.data(), name.size() - 1);
    return name.data();
}

std::string as_file_name(std::string name) {
    for (char& c : name) {
        if (c == ' ' || c == '/' || c == ',' || c == '"' || c == '\\') c = '-';
    }
    return name;
}

// Programs beside this one make every figure worse, and each run another one.
void warn_when_busy() {
    double load = 0;
    const auto cores = static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
    if (::getloadavg(&load, 1) != 1 || load < 0.5 * cores) return;
    LOG_WARN("this machine is busy (load {:.1f} on {:.0f} cores): it will measure as slower", load,
             cores);
}

// What is measured, and what the machine is like with it.
struct Subject {
    spec::ModelSpec spec;
    model::ModelConfig config;
    node::ProfileRequest request;
    std::int64_t page_bytes = 0;
    std::int64_t memory_bytes = 0;        // that a worker would use
    std::int64_t packed_layer_bytes = 0;  // of one layer, as the engine keeps it
    std::unique_ptr<engine::Backend> backend;
};

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

// A few middle layers: without embedding and head where the model allows it.
spec::LayerRange measured_layers(const spec::ModelSpec& spec) {
    const bool middle = spec.n_layers > 2;
    const std::int32_t begin = middle ? 1 : 0;
    const std::int32_t most = middle ? spec.n_layers - 2 : spec.n_layers;
    const std::int64_t wanted = kMeasuredBytes / std::max<std::int64_t>(spec.layer_bytes, 1);
    const auto count = static_cast<std::int32_t>(std::clamp<std::int64_t>(wanted, 1, most));
    return {begin, begin + count};
}

base::Result<Subject> prepare(const ProfileArguments& a) {
    TRY_VOID(check_options(a));
    Subject s;
    TRY(std::shared_ptr<model::WeightSource> source, model::open_weights(a.model, a.weights));
    TRY(s.config, model::read_model_config(*source));
    TRY(s.spec, model::read_model_spec(source->file()));
    s.spec.name = as_file_name(a.name.empty() ? model::model_name(source->file()) : a.name);
    s.memory_bytes = base::usable_memory_bytes() / 5 * 4;
    if (!a.memory.empty()) {
        TRY(s.memory_bytes, parse_size("--memory", a.memory));
    }
    engine::CpuOptions options;
    options.threads = a.threads;
    options.block_size = a.block_size;
    if (!a.cpus.empty()) {
        TRY(options.cpus, parse_cpu_list("--cpus", a.cpus));
    }
    options.ranks = a.tp;
    TRY(options.kv_type, parse_kv("--kv", a.kv));
    s.page_bytes =
        engine::ops::KvLayout{options.kv_type, s.config.n_kv_heads, s.config.head_dim, a.block_size}
            .page_bytes();
    s.request.layers = measured_layers(s.spec);
    s.request.block_size = a.block_size;
    s.request.context = a.context;
    s.request.most_prompt = a.most_prompt;
    s.request.most_sequences = a.most_sequences;
    TRY(const double budget_s, parse_seconds("--budget", a.budget));
    s.request.budget = base::from_seconds(budget_s);
    // Packed weights may be larger than stored ones; what is not used takes no memory.
    const std::int64_t pages =
        std::min(node::pages_to_profile(s.request), s.memory_bytes / kPageShare / s.page_bytes);
    options.memory_bytes = 8 * s.spec.layer_bytes * s.request.layers.size() +
                           8 * (s.spec.embedding_bytes + s.spec.head_bytes) + pages * s.page_bytes;
    TRY(s.backend, engine::make_cpu_backend(std::move(source), s.config, options));
    TRY(const std::int64_t total, s.backend->load(s.request.layers));
    s.request.pages = std::min(total, pages);
    s.packed_layer_bytes = (options.memory_bytes - total * s.page_bytes) / s.request.layers.size();
    return s;
}

// What fits beside j layers, by the planner's rule for a machine of its own.
std::vector<spec::MeasuredTables::Limit> limits(const Subject& s, const ProfileArguments& a,
                                                const node::MachineProfile& profile) {
    std::vector<spec::MeasuredTables::Limit> limits;
    const std::int64_t kv_token_bytes = s.page_bytes / a.block_size;
    for (std::int32_t j = 1; j <= s.spec.n_layers; ++j) {
        std::int64_t left = s.memory_bytes - j * s.packed_layer_bytes;
        if (j == s.spec.n_layers) left -= s.spec.embedding_bytes + s.spec.head_bytes;
        const double one_context =
            static_cast<double>(s.spec.context_length) * static_cast<double>(kv_token_bytes) * j;
        const double reserve =
            std::min(kKvReserve * static_cast<double>(s.memory_bytes), one_context);
        if (static_cast<double>(left) < reserve || left < j * s.page_bytes) break;
        spec::MeasuredTables::Limit limit;
        limit.kv_tokens_per_layer = left / s.page_bytes / j * a.block_size;
        limit.prompt_max_tokens = profile.prompt.back().tokens;
        limit.prompt_max_requests = std::max(1, limit.prompt_max_tokens / a.context);
        limit.decode_max_tokens = profile.decode.back().tokens;
        limit.decode_max_context = std::int64_t{limit.decode_max_tokens} * a.context;
        limits.push_back(limit);
    }
    return limits;
}

spec::MeasuredTables::Curve curve(const std::vector<node::ProfilePoint>& points) {
    spec::MeasuredTables::Curve curve;
    for (const node::ProfilePoint& point : points) {
        curve.emplace_back(point.tokens, point.seconds);
    }
    return curve;
}

std::string points_text(const char* title, const char* unit,
                        const std::vector<node::ProfilePoint>& points) {
    std::string text = fmt::format("\n{}\n{:>10}{:>14}{:>14}{:>10}{:>7}\n", title, unit,
                                   "one layer", "per token", "spread", "runs");
    for (const node::ProfilePoint& p : points) {
        text += fmt::format("{:>10}{:>14}{:>14}{:>8.1f} %{:>7}{}\n", p.tokens,
                            spec::format_duration(p.seconds),
                            spec::format_duration(p.seconds / p.tokens), p.spread * 100, p.runs,
                            p.spread > kNoisy ? "  noisy" : "");
    }
    return text;
}

std::string context_text(const node::MachineProfile& profile) {
    std::string text =
        fmt::format("\n{} sequences decode, by the context of each: ", profile.context_sequences);
    for (std::size_t i = 0; i < profile.context.size(); ++i) {
        const node::ProfilePoint& p = profile.context[i];
        text += fmt::format("{}{} after {} tokens", i == 0 ? "" : ", ",
                            spec::format_duration(p.seconds), p.tokens);
    }
    return text + "\n";
}

nlohmann::ordered_json points_json(const std::vector<node::ProfilePoint>& points) {
    auto list = nlohmann::ordered_json::array();
    for (const node::ProfilePoint& p : points) {
        list.push_back(
            {{"tokens", p.tokens}, {"layer_s", p.seconds}, {"spread", p.spread}, {"runs", p.runs}});
    }
    return list;
}

std::string shown(const ProfileArguments& a, const Subject& s, const spec::MeasuredTables& tables,
                  const node::MachineProfile& profile) {
    if (a.json) {
        nlohmann::ordered_json json = {
            {"model", s.spec.name},
            {"type", tables.type},
            {"output", a.output},
            {"layers_measured", {s.request.layers.begin, s.request.layers.end}},
            {"context", a.context},
            {"memory_bytes", s.memory_bytes},
            {"max_layers", tables.limits.size()},
            {"kv_tokens_per_layer", tables.limits.back().kv_tokens_per_layer},
            {"prompt", points_json(profile.prompt)},
            {"decode", points_json(profile.decode)},
            {"context_sequences", profile.context_sequences},
            {"decode_by_context", points_json(profile.context)}};
        return json.dump(1) + "\n";
    }
    std::string text = fmt::format("{} on {}, measured over layers {}-{}\n", s.spec.name,
                                   tables.type, s.request.layers.begin, s.request.layers.end - 1);
    text += points_text("prompts", "tokens", profile.prompt);
    text += points_text(
        fmt::format("decoding, each sequence after {} tokens of context", a.context).c_str(),
        "sequences", profile.decode);
    text += context_text(profile);
    text += fmt::format("\nup to {} of {} layers in {}; beside {} there is KV for {} tokens\n",
                        tables.limits.size(), s.spec.n_layers, spec::format_bytes(s.memory_bytes),
                        tables.limits.size(), tables.limits.back().kv_tokens_per_layer);
    return text + fmt::format("written to {}: use it with --profiles {} --profile {} --type {}\n",
                              a.output, a.output, s.spec.name, tables.type);
}

base::Status run_profile(const ProfileArguments& a) {
    TRY(Subject s, prepare(a));
    warn_when_busy();
    node::MachineProfile profile;
    {
        ProgressLine progress("measuring " + s.spec.name);
        s.request.on_progress = [&](double share) {
            progress.update(static_cast<std::uint64_t>(share * 1000), 1000);
        };
        TRY(profile, node::profile_machine(*s.backend, s.request));
    }
    spec::MeasuredTables tables;
    tables.model = s.spec;
    tables.type = as_file_name(a.type.empty() ? host_name() : a.type);
    tables.block_size = a.block_size;
    tables.prompt_s = curve(profile.prompt);
    tables.decode_s = curve(profile.decode);
    tables.limits = limits(s, a, profile);
    if (tables.limits.empty()) {
        return base::Error{base::Errc::unavailable,
                           fmt::format("{} of memory cannot hold one layer of {} and its KV",
                                       spec::format_bytes(s.memory_bytes), s.spec.name)};
    }
    TRY_VOID(spec::write_profile(a.output, tables));
    // What was written is what others will read.
    const auto again = spec::ProfileTables::read(a.output, s.spec.name);
    if (!again.ok()) return again.error();
    std::fputs(shown(a, s, tables, profile).c_str(), stdout);
    return base::Ok{};
}

}  // namespace

void add_profile(App& app) {
    CLI::App* profile = app.parser.add_subcommand(
        "profile", "Measures how fast this machine runs a model's layers, as tables");
    auto a = std::make_shared<ProfileArguments>();
    profile->add_option("--model", a->model, "a GGUF file, or a folder of safetensors")->required();
    profile->add_option("--quantize", a->weights.quantize,
                        "q8_0 or q4_0: what a folder's matrices become when they are loaded");
    profile->add_option("--output", a->output, "folder for the tables; other machines' stay")
        ->required();
    profile->add_option("--type", a->type, "what this kind of machine is called [host name]");
    profile->add_option("--name", a->name, "what the model is called [from the file]");
    profile->add_option("--threads", a->threads, "of the engine [one per core]");
    profile->add_option("--cpus", a->cpus, "pin the engine's threads to these cores, like 0-3");
    profile->add_option("--tp", a->tp, "tensor parallel ranks, as the worker will have")
        ->capture_default_str();
    profile->add_option("--memory", a->memory,
                        "for weights and KV cache, like 6GB [four fifths of what is free]");
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
        "--memory 6GB");
    profile->callback([&app, a] { app.action = [a] { return run_profile(*a); }; });
}

}  // namespace helix::cli
