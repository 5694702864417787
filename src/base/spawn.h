#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace helix::base {

// Starts a program in a process group of its own, with the signals that set_child_signals() leaves
// it: what ends us from the terminal is for us to pass on.
struct SpawnOptions {
    std::vector<std::string> command;      // a path, or a name that PATH has, and its arguments
    std::vector<std::string> variables{};  // "NAME=value", added to our environment
    // A file that all that it writes is added to; it reads nothing then. "": as we write and read.
    std::string output{};
};
// Error unavailable, which names the program: it cannot be started.
Result<pid_t> spawn(const SpawnOptions& options);

}  // namespace helix::base
