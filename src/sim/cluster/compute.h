#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/time.h"
#include "core/protocol/worker_actions.h"
#include "core/protocol/worker_events.h"
#include "sim/cluster/sim_machine.h"

namespace helix::sim {

// Activations and the content of KV pages, a number for each row or position. Empty where nothing
// is computed and only time passes.
using Rows = std::vector<std::uint64_t>;

// What the machines of a simulated cluster compute, and how long it takes them.
class Compute {
  public:
    struct Loading {
        core::LayersLoaded loaded;
        std::optional<double> seconds;  // none: they are there at once
    };
    struct Run {
        core::BatchFinished finished;
        base::Duration unseen;  // after its end, until the machine sees that it has ended
    };

    Compute() = default;
    Compute(const Compute&) = delete;
    Compute& operator=(const Compute&) = delete;
    virtual ~Compute() = default;

    // The machine's worker starts, with nothing, or is gone with all that it had.
    virtual void start(const SimMachine& /*machine*/) {}
    virtual void stop(const SimMachine& /*machine*/) {}

    virtual Loading load(const SimMachine& machine, const core::LoadLayers& action) = 0;
    // The batch's output goes into a buffer of the batch's number.
    virtual Run run(const SimMachine& machine, const core::BatchPlan& plan) = 0;

    // Buffers: what the workers' payloads name. False: there is no such buffer.
    virtual std::uint64_t keep(const SimMachine& machine, Rows content) = 0;
    virtual bool release(const SimMachine& machine, std::uint64_t buffer) = 0;
    virtual void append(const SimMachine& machine, const core::PayloadRef& payload, Rows& to) = 0;

    // KV that moves. What the pages hold now; how long it takes to send them.
    virtual Rows read(const SimMachine& machine, std::span<const core::PageId> pages) = 0;
    virtual double export_s(const SimMachine& machine, const SimMachine& to,
                            const core::ExportKv& action) const = 0;
    // What is to be written, out of the buffer; none: the buffer has another number of pages.
    virtual std::optional<Rows> select(const SimMachine& machine, const core::ImportKv& action) = 0;
    virtual std::optional<double> import_s() const = 0;  // none: it is written at once
    virtual void write(const SimMachine& machine, std::span<const core::PageId> pages,
                       const Rows& content) = 0;
};

}  // namespace helix::sim
