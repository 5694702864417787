#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/protocol/messages.h"

// What the world tells a worker.

namespace helix::core {

// From the coordinator, or (StageInputs and KvBlocks only) from another worker.
struct MessageArrived {
    WorkerMessage message;
};
// Answer to LoadLayers: the weights are in place and the pool has so many pages.
struct LayersLoaded {
    std::uint64_t epoch = 0;
    std::int64_t total_pages = 0;
    std::int64_t swap_pages = 0;  // of host memory, for swapped pages
    // As in LayersReady:
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
// Answer to RunBatch. tokens: for each chunk with sample set, in the order of the plan, those of
// the members 0 ... draws - 1, or with drafts 1 to drafts + 1 tokens at rising positions. A failed
// sequence (the chunk's, also where one of its draws failed) has its tokens there too; they mean
// nothing.
struct BatchFinished {
    std::uint64_t id = 0;
    std::vector<ProducedToken> tokens;
    Duration took;
    std::vector<FailedSequence> failed = {};
    // For each chunk, in the order of the plan: its scored tokens with their log-probabilities.
    std::vector<ProducedToken> scored = {};
};
// The engine could not run it: its sequences end with the reason.
struct BatchFailed {
    std::uint64_t id = 0;
    std::string reason;
};
// Answer to ExportKv: the pages have been read. Whether the message arrives is not known.
struct KvExported {
    std::uint64_t transfer = 0;
};
// Answer to ImportKv: the pages are written; with an error the received bytes are not theirs.
struct KvImported {
    std::uint64_t transfer = 0;
    std::string error = {};
};
// The link to this worker broke: what was sent to it or by it may be lost. down: it is not back
// yet; that it is, or is not wanted any more, comes as one without.
struct PeerBroken {
    WorkerId peer;
    bool down = false;
    std::string endpoint = {};  // that was tried; with down
};
struct WorkerTick {};  // at least every WorkerConfig::report_interval

using WorkerEvent = std::variant<MessageArrived, LayersLoaded, LayersNotLoaded, BatchFinished,
                                 BatchFailed, KvExported, KvImported, PeerBroken, WorkerTick>;

}  // namespace helix::core
