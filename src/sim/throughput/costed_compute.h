#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/random.h"
#include "sim/cluster/compute.h"
#include "spec/cluster_spec.h"
#include "spec/cost_model.h"
#include "spec/model_spec.h"

namespace helix::sim {

// What a batch costs besides CostModel::layer_s, as the published simulator counts it.
struct BatchOverheads {
    // One decode alone in its batch takes twice the table's time.
    bool lone_decode_doubles = true;
    // Every row's activation is copied into the batch and onto the device.
    double copy_bytes_per_s = 1 / (1 / 4e9 + 1 / 5e9);
    // Mean of what passes after a batch until the machine's threads see it and can start another:
    // exponentially distributed, drawn anew for each batch. Clusters of different seeds part within
    // seconds, as real ones do.
    double wake_s = 0;
    std::uint64_t wake_seed = 0;
};

inline constexpr core::Token kAnyToken = 1;  // that every sequence has and gets, at each position

// Machines that compute nothing and take the time that it would have cost, so that a day on many
// machines takes minutes. A machine's vertex is its node's index in the cluster.
class CostedCompute final : public Compute {
  public:
    struct Config {
        // Both must outlive it.
        const spec::ClusterSpec* cluster = nullptr;
        const spec::CostModel* costs = nullptr;
        spec::ModelSpec model;
        std::int32_t block_size = 0;
        BatchOverheads overheads;
        std::vector<double> load_s;  // by node; 0: at once
        double migration_bytes_per_s = 0;
    };
    explicit CostedCompute(Config config);

    Loading load(const SimMachine& machine, const core::LoadLayers& action) override;
    Run run(const SimMachine& machine, const core::BatchPlan& plan) override;
    std::uint64_t keep(const SimMachine& machine, Rows content) override;
    bool release(const SimMachine& /*machine*/, std::uint64_t /*buffer*/) override { return true; }
    void append(const SimMachine& /*machine*/, const core::PayloadRef& /*payload*/,
                Rows& /*to*/) override {}
    Rows read(const SimMachine& /*machine*/, std::span<const core::PageId> /*pages*/) override {
        return {};
    }
    double export_s(const SimMachine& machine, const SimMachine& to,
                    const core::ExportKv& action) const override;
    std::optional<Rows> select(const SimMachine& /*machine*/,
                               const core::ImportKv& /*action*/) override {
        return Rows{};
    }
    std::optional<double> import_s() const override { return std::nullopt; }
    void write(const SimMachine& /*machine*/, std::span<const core::PageId> /*pages*/,
               const Rows& /*content*/) override {}

  private:
    double batch_s(const SimMachine& machine, const core::BatchPlan& plan);
    double layer_s(const SimMachine& machine, std::int32_t decodes, std::int32_t prefills);
    double page_bytes() const;
    // Of the slowest link from one node to another; 0: none has a known speed.
    double link_bytes_per_s(std::int32_t from, std::int32_t to) const;

    Config config_;
    base::Random wakes_;
    std::uint64_t next_buffer_ = 1;
    std::vector<spec::LayerRange> layers_;  // by worker id
    std::vector<std::int32_t> decodes_;     // by layer of the batch being costed
    std::vector<std::int32_t> prefills_;
    // What a layer of a few decodes costs, by worker id and their number; below 0: not known yet.
    static constexpr std::size_t kFew = 16;
    std::vector<std::array<double, kFew>> few_;
    mutable std::vector<double> links_;  // by from and to; empty until it is asked for
};

}  // namespace helix::sim
