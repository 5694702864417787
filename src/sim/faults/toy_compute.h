#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "sim/cluster/compute.h"
#include "sim/faults/toy_engine.h"
#include "spec/cost_model.h"

namespace helix::sim {

// Machines that compute the toy model, whose every token an oracle knows, and take the time that a
// cost model says.
class ToyCompute final : public Compute {
  public:
    struct Config {
        std::int32_t block_size = 0;
        std::int32_t vocab = 0;
        std::int64_t swap_pages = 0;
        std::int32_t kv_formats = 1;  // worker i writes its pages in format i % kv_formats
        double kv_page_bytes = 0;
        double load_s = 0;                  // until assigned layers are in place
        double migration_bytes_per_s = 0;   // for KV that moves between workers,
        double link_bytes_per_s = 0;        // and for what a request waits for
        spec::AttentionWindow window = {};  // of the toy model
    };
    // cost must outlive it.
    ToyCompute(const Config& config, const spec::CostModel& cost) : config_(config), cost_(cost) {}

    void start(const SimMachine& machine) override;
    void stop(const SimMachine& machine) override;
    Loading load(const SimMachine& machine, const core::LoadLayers& action) override;
    Run run(const SimMachine& machine, const core::BatchPlan& plan) override;
    std::uint64_t keep(const SimMachine& machine, Rows content) override;
    bool release(const SimMachine& machine, std::uint64_t buffer) override;
    void append(const SimMachine& machine, const core::PayloadRef& payload, Rows& to) override;
    Rows read(const SimMachine& machine, std::span<const core::PageId> pages) override;
    double export_s(const SimMachine& machine, const SimMachine& to,
                    const core::ExportKv& action) const override;
    std::optional<Rows> select(const SimMachine& machine, const core::ImportKv& action) override;
    std::optional<double> import_s() const override;
    void write(const SimMachine& machine, std::span<const core::PageId> pages,
               const Rows& content) override;

    bool holds_buffers(const SimMachine& machine) const {
        return !states_.at(machine.id).buffers.empty();
    }

  private:
    struct State {
        ToyEngine engine;
        std::map<std::uint64_t, Rows> buffers = {};
    };
    State& state_of(const SimMachine& machine) { return states_.at(machine.id); }

    Config config_;
    const spec::CostModel& cost_;
    std::map<core::WorkerId, State> states_;  // of the workers that are up
    std::map<core::WorkerId, std::uint64_t> last_buffer_;
};

}  // namespace helix::sim
