#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "node/leadership.h"

// Several coordinators of one cluster, of which one leads.

namespace helix::cli {

struct LeaderArguments {
    std::string url;  // "" = this coordinator is the only one
    int lease_s = 3;
};

void add_leader_options(CLI::App& command, LeaderArguments& arguments);

struct Led {
    std::unique_ptr<node::Leadership> leadership;  // null without --leader
    std::uint64_t term = 0;                        // 0 without --leader
    bool stopped = false;                          // it was interrupted before it led
};

// Waits until this coordinator leads. When another leads later, the process ends at once: whoever
// starts it again has it stand by. listen, where the API will be, names it for people.
base::Result<Led> lead(const LeaderArguments& arguments, const std::string& listen);

}  // namespace helix::cli
