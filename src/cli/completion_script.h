#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "base/result.h"

namespace helix::cli {

// A script for bash, zsh or fish that completes the program's commands and flags, and files where
// neither is meant. Error invalid: another shell.
base::Result<std::string> completion_script(const CLI::App& program, const std::string& shell);

}  // namespace helix::cli
