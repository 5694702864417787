#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/batch_plan.h"
#include "core/messages.h"

namespace helix::core {

// ---- events: what the world tells a worker
// --------------------------------------------------------

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

// ---- actions: what a worker asks the world to do
// --------------------------------------------------

// These are all the workers that rows may be sent to from now on.
struct ConnectPeers {
    std::vector<Peer> peers;
};
// Put these layers' weights in place (dropping the others) and answer LayersLoaded or
// LayersNotLoaded. Never asked for while a batch runs.
struct LoadLayers {
    std::uint64_t epoch = 0;
    LayerRange layers;
};
// Run it; at most one batch runs at a time. Answer BatchFinished or BatchFailed.
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

// Read these pages and send them with the message, beside the batches: on a thread and a
// connection of their own, no faster than the configured rate. pages[block * layers + layer] is
// the payload's content. They are not written before the answer KvExported. Paced, and one at a
// time; but what a held request waits for goes at once, beside it.
struct ExportKv {
    std::uint64_t transfer = 0;
    WorkerId to;
    KvBlocks message;
    std::vector<PageId> pages;
    bool held = false;
};
// A WorkerTick then, or a little later.
struct WakeAt {
    TimePoint at;
};
// Write the pages of a received frame, content[i] to page[i]; content counts the frame's pages
// from 0. Neither read nor written by batches before the answer KvImported. Several may be under
// way.
struct ImportKv {
    std::uint64_t transfer = 0;
    std::uint64_t buffer = 0;
    std::uint32_t frame_pages = 0;  // that the frame must have
    std::vector<std::uint32_t> content;
    std::vector<PageId> pages;
};

using WorkerAction = std::variant<ConnectPeers, LoadLayers, RunBatch, SendToPeer, SendToCoordinator,
                                  ReleaseBuffer, ExportKv, ImportKv, WakeAt>;

struct WorkerConfig {
    std::int32_t block_size = 16;       // tokens per page
    std::int32_t n_layers = 0;          // of the model
    std::int32_t max_batch_rows = 512;  // decodes and prefill rows of one batch
    // Prefill rows of a batch that also has decodes, until costs are measured
    // (core/batch_limits.h).
    std::int32_t mixed_prefill_rows = 64;
    // Time that prompts may take from decodes, while both wait, over the time that decodes take.
    double prefill_share = 3;
    std::int32_t max_batch_seqs = 256;
    Duration report_interval = base::from_ms(500);
    bool prefix_cache = false;  // keep full blocks for later sequences with the same first tokens
    bool list_pages = true;     // fill BatchChunk::pages; an engine without KV memory needs none
    std::int32_t transfer_pages = 512;  // of KV in one message to another worker
    // KV that came for a sequence which then did not is given back (FEATURES L4).
    Duration orphan_timeout = base::from_seconds(10);
};

// One worker's policy: which rows run next and where their KV lives. Deterministic; no I/O.
//
// Promises: rows of a sequence run in order and once; a batch holds at most one chunk of a
// sequence; decodes go before prefill chunks, by priority and arrival; pages of a freed sequence
// are back in the pool before the next batch is planned; input for a superseded or freed sequence
// is dropped silently.
class Worker {
  public:
    Worker(WorkerId self, const WorkerConfig& config);
    ~Worker();
    Worker(Worker&&) noexcept;
    Worker& operator=(Worker&&) noexcept;

    void step(TimePoint now, const WorkerEvent& event, std::vector<WorkerAction>& actions);

    struct Impl;
    const Impl& impl() const { return *impl_; }  // for Invariants

  private:
    std::unique_ptr<Impl> impl_;
};

}  // namespace helix::core
