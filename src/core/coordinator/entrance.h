#pragma once

#include <cstdint>
#include <string>

#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/request_table.h"

namespace helix::core {

// Entrance holds what a worker says against what the coordinator knows, before anything of it is
// believed.
//
// Messages may be lost, come twice and come late: what any of that can make of the messages of a
// sound worker is ignored where it comes too late, and is no contradiction. What no loss,
// repetition or delay explains is one: a token that nobody asked for, an answer to what was never
// said, a number that cannot be. A worker that contradicts itself is cut off, with the reason: its
// session ends, and its requests go on elsewhere as after a death. So behind this nobody has to ask
// whether a message makes sense.
//
// Each function returns why the message cannot be, as something that the worker did ("drew a token
// that ..."), or nothing if it can be.
class Entrance {
  public:
    Entrance(const CoordinatorConfig& config, const Fleet& fleet, const RequestTable& requests)
        : config_(config), fleet_(fleet), requests_(requests) {}

    std::string contradiction(WorkerId worker, const TokensProduced& message) const;
    std::string contradiction(WorkerId worker, const SequenceStuck& message) const;
    std::string contradiction(WorkerId worker, const LayersReady& message) const;
    std::string contradiction(WorkerId worker, const LayersFailed& message) const;
    std::string contradiction(WorkerId worker, const WorkerReport& message) const;
    std::string contradiction(WorkerId worker, const KvReserved& message) const;
    std::string contradiction(WorkerId worker, const KvArrived& message) const;
    std::string contradiction(WorkerId worker, const KvRefused& message) const;
    std::string contradiction(WorkerId worker, const PeerLost& message) const;
    std::string contradiction(WorkerId worker, const StageTimes& message) const;
    std::string contradiction(const Holding& holding) const;

  private:
    // Returns null if the request does not run as this attempt.
    const RequestState* running_as(const SequenceKey& key) const;
    std::string wrong_token(WorkerId worker, const RequestState& state,
                            const ProducedToken& token) const;
    std::string wrong_embedding(WorkerId worker, const RequestState& state,
                                const PromptEmbedding& one) const;
    std::string wrong_move(WorkerId worker, const SequenceKey& key, bool source_too) const;

    const CoordinatorConfig& config_;
    const Fleet& fleet_;
    const RequestTable& requests_;
};

}  // namespace helix::core
