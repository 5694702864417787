#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/result.h"

// What the subcommands of `helix` share. Each adds itself to the app; the chosen one's action runs
// after parsing and its Status becomes the exit code (0, or 1 with the message on standard error);
// what is wrong on the command line or in --config ends with 2.

namespace helix::cli {

struct App {
    CLI::App parser{"Helix serves one large language model on whatever machines there are.",
                    "helix"};
    std::function<base::Status()> action;  // of the subcommand that was named
    // What it calls models: paths, names of a hub or addresses. They are paths when action runs.
    std::vector<std::string*> models;
    std::string log_level = "info";
    std::string log_format = "text";
    // It is read before parsing, which knows the option only for its help.
    std::string config_file;
};

// All that follow, and the options of helix itself.
void add_commands(App& app);

void add_serve(App& app);
void add_worker(App& app);
void add_gateway(App& app);
void add_model(App& app);
void add_pull(App& app);
void add_model_cache(CLI::App& model, App& app);         // to `helix model`
void add_model_quantisation(CLI::App& model, App& app);  // likewise
void add_plan(App& app);
void add_machines(App& app);
void add_devices(App& app);
void add_simulate(App& app);
void add_experiment(App& app);
void add_trace(App& app);
void add_key(App& app);
void add_node(App& app);
void add_pair(App& app);
void add_bench(App& app);
void add_profile(App& app);
void add_run(App& app);
void add_status(App& app);
void add_top(App& app);
void add_config(App& app);
void add_completion(App& app);
void add_man(App& app);
void add_help(App& app);

// The whole program.
int run(int argc, const char* const* argv);

}  // namespace helix::cli
