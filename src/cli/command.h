#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/result.h"

// What the subcommands of `helix` share. Each adds itself to the app; the chosen one's action runs
// after parsing and its Status becomes the exit code (0, or 1 with the message on standard error).

namespace helix::cli {

struct App {
    CLI::App parser{"Helix serves one large language model on whatever machines there are.",
                    "helix"};
    std::function<base::Status()> action;  // of the subcommand that was named
    // What it calls models: paths, names of a hub or addresses. They are paths when action runs.
    std::vector<std::string*> models;
};

void add_serve(App& app);
void add_worker(App& app);
void add_model(App& app);
void add_pull(App& app);
void add_model_cache(CLI::App& model, App& app);  // to `helix model`
void add_plan(App& app);
void add_machines(App& app);
void add_devices(App& app);
void add_simulate(App& app);
void add_experiment(App& app);
void add_trace(App& app);
void add_key(App& app);
void add_node(App& app);
void add_bench(App& app);
void add_profile(App& app);

// The whole program.
int run(int argc, const char* const* argv);

}  // namespace helix::cli
