#include "cli/problem_option.h"

#include "cli/help_text.h"

namespace helix::cli {

void add_problem_options(CLI::App& command, lab::ProblemSource& problem) {
    const OptionHeading heading(command, "Cluster and model");
    command.add_option("CLUSTER", problem.cluster, "a cluster file, .json or .toml")->required();
    command
        .add_option("--model", problem.model,
                    "a model's name (llama3-8b), a GGUF file, a folder of safetensors, a "
                    "Hugging Face config.json, or OWNER/REPO:TAG of a hub")
        ->required();
    command
        .add_option("--weights", problem.weights,
                    "of a model by name or config.json: f32, f16, q8_0, q4_0 or q4_k")
        ->capture_default_str();
    command.add_option("--profiles", problem.profiles,
                       "folder of measured tables (models.json, MODEL_TYPE_prompt_time.csv, ...) "
                       "[datasheet figures of the machines' types]");
    command.add_option(
        "--machine-mix", problem.machine_mix,
        "one of machine_mixes.json, for which the tables' tokens/s are computed [the "
        "cluster's own machines]");
}

}  // namespace helix::cli
