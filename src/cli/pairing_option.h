#pragma once

#include <functional>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "net/key.h"

// How `helix worker` gets a key by a code that the coordinator shows.

namespace helix::cli {

struct PairingArguments {
    bool pair = false;
    std::string code_file;  // "-" = standard input; "" = ask on the terminal
};
void add_pairing_options(CLI::App& command, PairingArguments& a);

// What a worker brings along that has perhaps no key yet.
struct PairingWish {
    std::string join;      // as --join has it
    std::string key_file;  // "" = in ~/.helix, named for the coordinator and the worker
    std::string name;      // "" = the machine's
    // Called before anything is asked for: whether a key for one worker would do.
    std::function<base::Status()> check_single;
};

// The worker's key for the coordinator there: from its file, or by pairing, which makes the file.
// Nothing when no key is needed or none can be had by pairing, which then is no mistake.
base::Result<std::optional<net::WorkerKey>> key_for(const PairingArguments& a,
                                                    const PairingWish& wish);

}  // namespace helix::cli
