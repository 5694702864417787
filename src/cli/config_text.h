#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "cli/config_file.h"

namespace helix::cli {

// All options of a command as a file that --config takes: with the values that file sets and the
// lines that they come from, else with those that hold by themselves, as comments.
std::string config_text(const CLI::App& program, const CLI::App& command, const ConfigFile& file);

}  // namespace helix::cli
