#pragma once

#include "cli/command.h"
#include "lab/problem/problem.h"

namespace helix::cli {

// What `plan` and `simulate` are asked about. problem must live as long as the command.
void add_problem_options(CLI::App& command, lab::ProblemSource& problem);

}  // namespace helix::cli
