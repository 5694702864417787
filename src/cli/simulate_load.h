#pragma once

#include "cli/command.h"
#include "lab/simulation/load_choice.h"

namespace helix::cli {

// What `helix simulate` asks of a cluster. load must live as long as the command.
void add_load_options(CLI::App& command, lab::LoadChoice& load);

}  // namespace helix::cli
