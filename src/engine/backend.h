#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "core/batch_plan.h"
#include "core/messages.h"
#include "core/worker.h"

namespace helix::engine {

// Rows of an incoming activation buffer: [rows, hidden] floats, row-major, as PayloadRef names
// them. Valid during Backend::run.
using PayloadRows = std::function<std::span<const float>(const core::PayloadRef&)>;

struct BatchResult {
    std::vector<core::ProducedToken> tokens;   // as core::BatchFinished wants them
    std::vector<core::FailedSequence> failed;  // whose token could not be drawn
    std::vector<float> output;                 // [plan.output_rows, hidden]
    std::vector<core::ProducedToken> scored;   // as core::BatchFinished wants them
};

// What executes a worker's batches. One thread calls it; it may use its own pool.
class Backend {
  public:
    virtual ~Backend() = default;
    // Holds exactly these layers from now on and sizes the KV pool with the memory that is left;
    // all KV content is lost. Returns the number of pages (block_size tokens x one layer each).
    // unavailable when the layers, or the layers and one page each, do not fit; says how many bytes
    // are missing.
    virtual base::Result<std::int64_t> load(spec::LayerRange layers) = 0;
    // Moves the plan's pages, then runs its chunks layer by layer. The result of a row does not
    // depend on what else is in the batch or on how a prompt is cut into chunks, bit for bit.
    virtual base::Result<BatchResult> run(const core::BatchPlan& plan,
                                          const PayloadRows& payload) = 0;
    // Pages that host memory has room for when they are swapped out; known after load.
    virtual std::int64_t swap_pages() const { return 0; }
    // Floats per activation row.
    virtual std::int32_t hidden_size() const = 0;
};

}  // namespace helix::engine
