#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

// Where more workers come from when the cluster scales.

namespace helix::node {

// Starts and stops machines or processes that run `helix worker`. Used by one thread at a time; a
// call may take minutes.
class NodeProvider {
  public:
    NodeProvider() = default;
    NodeProvider(const NodeProvider&) = delete;
    NodeProvider& operator=(const NodeProvider&) = delete;
    virtual ~NodeProvider() = default;

    // Starts one worker that joins under this name. The name was not used before, or its worker has
    // ended. Ok means that the worker is on its way.
    virtual base::Status start(const std::string& name) = 0;
    // Stops the worker of this name, which holds nothing any more or never came.
    virtual base::Status stop(const std::string& name) = 0;

    struct Ended {
        std::string name;
        std::string how;  // "ended with 1"
    };
    // Workers that have ended without stop() since the last call, where that can be seen.
    virtual std::vector<Ended> take_ended() { return {}; }
};

// Provides processes on this machine: `program worker --join JOIN --name NAME` and the further
// arguments. They end with the provider.
std::unique_ptr<NodeProvider> local_provider(std::string program, std::string join,
                                             std::vector<std::string> arguments);

// Provides anything else: the shell runs `COMMAND start NAME` or `COMMAND stop NAME`, with
// HELIX_JOIN set to the address that workers join. The command has to end within the timeout, with
// 0 if it worked.
std::unique_ptr<NodeProvider> command_provider(std::string command, std::string join,
                                               int timeout_s = 600);

}  // namespace helix::node
