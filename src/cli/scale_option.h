#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "core/coordinator/auto_scale.h"
#include "node/node_provider.h"

// The options of `serve` that say when workers are added and stopped, and how.

namespace helix::cli {

struct ScaleArguments {
    std::string range;    // "local:1-4", or "1-4" with a command; "" = workers come by other hands
    std::string command;  // that starts and stops them
    std::string worker;   // further arguments of local workers, as one would type them
    std::string freeness;
};

void add_scale_options(CLI::App& command, ScaleArguments& arguments);
// None without --scale. invalid: a range that is none, a command with local workers.
base::Result<std::optional<core::AutoScaleConfig>> scale_config(const ScaleArguments& arguments);
// arguments.range is not empty and was understood. local: what `helix worker` is told, besides.
std::unique_ptr<node::NodeProvider> node_provider(const ScaleArguments& arguments,
                                                  const std::string& join,
                                                  std::vector<std::string> local);

}  // namespace helix::cli
