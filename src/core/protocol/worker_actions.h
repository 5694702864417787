#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "core/protocol/batch_plan.h"
#include "core/protocol/messages.h"

// What a worker asks the world to do.

namespace helix::core {

// From now on rows may be sent to these workers and to no others.
struct ConnectPeers {
    std::vector<Peer> peers;
};
// Put these layers' weights in place (dropping the others) and answer LayersLoaded or
// LayersNotLoaded. Never asked for while a batch runs.
struct LoadLayers {
    std::uint64_t epoch = 0;
    LayerRange layers;
};
// Run the batch; at most one runs at a time. Answer BatchFinished or BatchFailed.
struct RunBatch {
    BatchPlan plan;
};
// Send to the next stage; each input's payload names rows of the batch's output buffer. Comes
// before that buffer's ReleaseBuffer.
struct SendToPeer {
    WorkerId peer;
    StageInputs inputs;
};
struct SendToCoordinator {
    CoordinatorMessage message;
};
// Nothing refers to this buffer (a received frame or a batch's output) any more.
struct ReleaseBuffer {
    std::uint64_t buffer = 0;
};

// Read these pages and send them with the message, beside the batches: on a thread and a connection
// of their own, no faster than the configured rate. pages[block * layers + layer] is the payload's
// content. They are not written before the answer KvExported. Exports are paced and go one at a
// time; only what a held request waits for goes at once, beside the other one.
struct ExportKv {
    std::uint64_t transfer = 0;
    WorkerId to;
    KvBlocks message;
    std::vector<PageId> pages;
    bool held = false;
};
// Send a WorkerTick at this time, or a little later.
struct WakeAt {
    TimePoint at;
};
// Write the pages of a received frame, content[i] to page[i]; content counts the frame's pages from
// 0. Batches neither read nor write these pages before the answer KvImported. Several imports may
// be under way.
struct ImportKv {
    std::uint64_t transfer = 0;
    std::uint64_t buffer = 0;
    std::uint32_t frame_pages = 0;  // how many pages the frame must have
    std::vector<std::uint32_t> content;
    std::vector<PageId> pages;
};

using WorkerAction = std::variant<ConnectPeers, LoadLayers, RunBatch, SendToPeer, SendToCoordinator,
                                  ReleaseBuffer, ExportKv, ImportKv, WakeAt>;

}  // namespace helix::core
