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

    // One worker that joins under this name, which was not used before, or whose worker has ended.
    // Ok: it is on its way.
    virtual base::Status start(const std::string& name) = 0;
    // It holds nothing any more, or never came.
    virtual base::Status stop(const std::string& name) = 0;

    struct Ended {
        std::string name;
        std::string how;  // "ended with 1"
    };
    // Workers that have ended without stop() since the last call, where that can be seen.
    virtual std::vector<Ended> take_ended() { return {}; }
};

// Processes on this machine: `program worker --join JOIN --name NAME` and the further arguments.
// They end with the provider.
std::unique_ptr<NodeProvider> local_provider(std::string program, std::string join,
                                             std::vector<std::string> arguments);

// Anything else: the shell runs `COMMAND start NAME` or `COMMAND stop NAME`, with HELIX_JOIN set to
// the address that workers join. Ends within the timeout, with 0 if it worked.
std::unique_ptr<NodeProvider> command_provider(std::string command, std::string join,
                                               int timeout_s = 600);

}  // namespace helix::node
