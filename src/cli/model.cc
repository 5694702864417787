// helix model info FILE · helix model synth OUT (list and rm are in pull.cc; quantize, imatrix and
// compare in quantize.cc)

#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "cli/progress.h"
#include "model/info.h"
#include "model/synth.h"
#include "model/tensor_type.h"
#include "model/weight_source.h"

namespace helix::cli {
namespace {

base::Status show_info(const std::string& path, const model::WeightOptions& options, bool json) {
    TRY(const auto weights, model::open_weights(path, options));
    const model::ModelInfo info = model::collect_info(*weights);
    std::fputs((json ? model::describe_json(info) : model::describe_text(info)).c_str(), stdout);
    if (json) std::fputs("\n", stdout);
    return base::Ok{};
}

base::Status make_synth(const model::SynthOptions& options) {
    {
        ProgressLine progress("writing " + options.path);
        TRY_VOID(model::synth_model(options, [&](std::uint64_t done, std::uint64_t total) {
            progress.update(done, total);
        }));
    }
    return show_info(options.path, {}, false);
}

std::string names_of(const std::vector<model::SynthShape>& shapes) {
    std::string names;
    for (const model::SynthShape& shape : shapes) {
        names += (names.empty() ? "" : ", ") + shape.name;
    }
    return names;
}

}  // namespace

void add_model(App& app) {
    CLI::App* model = app.parser.add_subcommand(
        "model",
        "Look at model files, list and remove pulled ones, quantise them, make synthetic ones");
    model->require_subcommand(1);
    model->footer(
        "Examples:\n"
        "  helix model info llama.gguf\n"
        "  helix model list\n"
        "  helix model quantize llama-f16.gguf llama-q4.gguf --type q4_k_m\n"
        "  helix model synth --shape llama-1b --quant q8_0 out.gguf\n"
        "\n'helix model COMMAND --help' says more.");

    CLI::App* info =
        model->add_subcommand("info", "What a GGUF file or a folder of safetensors holds");
    auto path = std::make_shared<std::string>();
    auto json = std::make_shared<bool>(false);
    auto weights = std::make_shared<model::WeightOptions>();
    info->add_option("FILE", *path, "a GGUF file, a folder of safetensors, or OWNER/REPO:TAG")
        ->required();
    info->add_option("--quantize", weights->quantize,
                     "q8_0 or q4_0: as the folder would be loaded with this option");
    info->add_flag("--json", *json, "one JSON object instead of lines for people");
    info->footer("Example:\n  helix model info llama.gguf");
    info->callback([&app, path, weights, json] {
        app.models = {path.get()};
        app.action = [=] { return show_info(*path, *weights, *json); };
    });

    add_model_cache(*model, app);
    add_model_quantisation(*model, app);
    CLI::App* synth = model->add_subcommand(
        "synth", "Writes a model of a real shape with random weights, for tests and benchmarks");
    auto options = std::make_shared<model::SynthOptions>();
    synth->add_option("OUT", options->path, "the file to write")->required();
    synth->add_option("--shape", options->shape, names_of(model::synth_shapes()))
        ->capture_default_str();
    synth
        ->add_option("--like", options->shape,
                     "a small model of this family: " + names_of(model::synth_likes()))
        ->excludes("--shape");
    synth->add_option("--quant", options->quant, model::tensor_type_names())->capture_default_str();
    synth
        ->add_option("--wider", options->wider,
                     "so many times as wide: hidden size, heads and feed-forwards")
        ->capture_default_str();
    synth->add_option("--seed", options->seed, "equal seeds give equal files")
        ->capture_default_str();
    synth->footer(
        "Examples:\n  helix model synth --shape llama-1b --quant q8_0 --seed 1 llama-1b.gguf\n"
        "  helix model synth --like smollm3 smollm3.gguf");
    synth->callback([&app, options] { app.action = [=] { return make_synth(*options); }; });
}

}  // namespace helix::cli
