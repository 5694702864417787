#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/protocol/messages.h"

// What the world tells a worker.

namespace helix::core {

// A message from the coordinator or, only StageInputs and KvBlocks, from another worker.
struct MessageArrived {
    WorkerMessage message;
};
// Answer to LoadLayers: the weights are in place and the pool has so many pages.
struct LayersLoaded {
    std::uint64_t epoch = 0;
    std::int64_t total_pages = 0;
    std::int64_t swap_pages = 0;  // pages of host memory for swapped ones
    // The next three are as in LayersReady.
    std::string kv_format = {};
    double kv_page_bytes = 0;
    double kv_bytes_per_s = 0;
};
struct LayersNotLoaded {
    std::uint64_t epoch = 0;
    std::string reason;
};
// A sequence whose next token could not be drawn: it ends with the reason.
struct FailedSequence {
    SequenceKey key;
    std::string reason;
    StuckCause cause = StuckCause::failed;  // or invalid_request
};
// Answer to RunBatch. tokens has, for each chunk with sample set, in the order of the plan, those
// of the members 0 ... draws - 1, or with drafts 1 to drafts + 1 tokens at rising positions. Where
// a draw failed, the chunk's sequence has failed; its tokens are there too and mean nothing.
struct BatchFinished {
    std::uint64_t id = 0;
    std::vector<ProducedToken> tokens;
    Duration took;
    std::vector<FailedSequence> failed = {};
    // For each chunk, in the order of the plan: its scored tokens with their log-probabilities.
    std::vector<ProducedToken> scored = {};
    // One for each chunk with pooling, in the order of the plan; these have no tokens.
    std::vector<PooledRows> pooled = {};
};
// The engine could not run the batch: its sequences end with the reason.
struct BatchFailed {
    std::uint64_t id = 0;
    std::string reason;
};
// Answer to ExportKv: the pages have been read. It does not say whether the message arrives.
struct KvExported {
    std::uint64_t transfer = 0;
};
// Answer to ImportKv: the pages are written. With an error they do not hold what was received.
struct KvImported {
    std::uint64_t transfer = 0;
    std::string error = {};
};
// The link to this worker broke, and what was sent to it or by it may be lost. down: it is not back
// yet. An event without down follows when it is back, or when it is not wanted any more.
struct PeerBroken {
    WorkerId peer;
    bool down = false;
    std::string endpoint = {};  // with down: the address that was tried
};
// The coordinator is not there any more. What runs goes on as far as it can, and what the worker
// holds it keeps for the next coordinator, for WorkerConfig::coordinator_wait.
struct CoordinatorLost {};
// Another coordinator is there, and was told what the worker holds (Worker::holding).
struct CoordinatorFound {};
struct WorkerTick {};  // at least every WorkerConfig::report_interval

using WorkerEvent =
    std::variant<MessageArrived, LayersLoaded, LayersNotLoaded, BatchFinished, BatchFailed,
                 KvExported, KvImported, PeerBroken, CoordinatorLost, CoordinatorFound, WorkerTick>;

}  // namespace helix::core
