#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/protocol/batch_plan.h"
#include "core/protocol/messages.h"
#include "core/worker/worker.h"

namespace helix::engine {

// Rows of an incoming activation buffer: [rows, hidden] floats, row-major, as PayloadRef names
// them. Valid during Backend::run.
using PayloadRows = std::function<std::span<const float>(const core::PayloadRef&)>;

struct BatchResult {
    std::vector<core::ProducedToken> tokens;   // as core::BatchFinished wants them
    std::vector<core::FailedSequence> failed;  // whose token could not be drawn
    std::vector<float> output;                 // [plan.output_rows, hidden]
    std::vector<core::ProducedToken> scored;   // as core::BatchFinished wants them
    std::vector<core::PooledRows> pooled;      // likewise
};

// What executes a worker's batches. One thread calls it; it may use its own pool.
class Backend {
  public:
    virtual ~Backend() = default;
    // Holds exactly these layers from now on and sizes the KV pool with the memory that is left;
    // all KV content is lost. Returns the number of pages (block_size tokens x one layer each).
    // unavailable when the layers, or the layers and one page each, do not fit; says how many bytes
    // are missing.
    // Weights that are held already are not read again.
    virtual base::Result<std::int64_t> load(spec::LayerRange layers) = 0;
    // Gives the memory of the KV pages back and keeps the weights; nothing runs before the next
    // load().
    virtual void drop_kv() = 0;
    // Moves the plan's pages, then runs its chunks layer by layer. The result of a row does not
    // depend on what else is in the batch or on how a prompt is cut into chunks, bit for bit.
    virtual base::Result<BatchResult> run(const core::BatchPlan& plan,
                                          const PayloadRows& payload) = 0;
    // Pages that host memory has room for when they are swapped out; known after load.
    virtual std::int64_t swap_pages() const { return 0; }
    // Threads of this machine that batches are computed with; 0: they are computed elsewhere.
    virtual std::int32_t compute_threads() const { return 0; }
    // Its device was lost, with all that it holds: nothing more will succeed.
    virtual bool lost() const { return false; }
    // Floats per activation row.
    virtual std::int32_t hidden_size() const = 0;

    // KV pages that move between workers. What a page's bytes are, in the backend's words: they can
    // be exchanged with a backend that says the same. Empty: pages do not move.
    virtual std::string kv_format() const { return ""; }
    // Of a page as it travels.
    virtual std::int64_t kv_page_bytes() const { return 0; }
    // For how many bytes a page counts where time is taken for its travel.
    virtual double kv_travel_bytes() const { return static_cast<double>(kv_page_bytes()); }
    // bytes: [pages.size(), kv_page_bytes()]. Other threads may call these while run() runs with
    // other pages; not while load() does. invalid: no such page, or not so many bytes.
    virtual base::Status read_pages(std::span<const core::PageId> pages,
                                    std::span<std::byte> bytes) const;
    virtual base::Status write_pages(std::span<const core::PageId> pages,
                                     std::span<const std::byte> bytes);

  protected:
    // Of pages to read or write, of which there are so many.
    base::Status check_pages(std::span<const core::PageId> pages, std::int64_t total,
                             std::size_t bytes) const;
};

}  // namespace helix::engine
