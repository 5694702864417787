// Two workers with half of one machine's cores each, against one worker with all of them. A batch
// of rows keeps any number of cores at work, so both ways the machine does the same in a second.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include "sim/report/observer.h"
#include "sim/throughput/helix_run.h"

namespace helix::sim::shared_cores_test {
namespace {

constexpr std::int32_t kModelLayers = 22;
constexpr std::int32_t kAtATime = 16;
constexpr std::int32_t kAnswer = 48;  // tokens
constexpr double kWaveEvery_s = 60;
constexpr std::int32_t kWaves = 5;
constexpr std::int32_t kWarmUpWaves = 2;  // until batches' costs are known

// Rows cost much, a batch little. Half of the cores take twice the time.
class HalvedCost final : public spec::CostModel {
  public:
    double layer_s(const spec::NodeSpec& node, std::int32_t decode_seqs,
                   std::int32_t prefill_tokens) const override {
        constexpr double kBatch_s = 0.0001;
        constexpr double kRow_s = 0.0005;
        return (kBatch_s + kRow_s * (decode_seqs + prefill_tokens)) / (node.type == "half" ? 1 : 2);
    }
};

// Sees waves of requests, each of which ends before the next begins.
class WaveWatch final : public Observer {
  public:
    bool request_created(std::uint64_t request, base::TimePoint at, std::int32_t,
                         std::int32_t) override {
        created_[request] = (at - base::TimePoint{}).seconds();
        return false;
    }
    void token(std::uint64_t request, base::TimePoint at) override {
        first_.try_emplace(request, (at - base::TimePoint{}).seconds());
    }
    void request_finished(std::uint64_t request, base::TimePoint at) override {
        last_[request] = (at - base::TimePoint{}).seconds();
    }

    std::size_t finished() const { return last_.size(); }
    // Means of the waves after those that warm up.
    double ttft_s() const {
        double sum = 0;
        for (const auto& [request, at] : first_) {
            if (counts(request)) sum += at - created_.at(request);
        }
        return sum / (kAtATime * (kWaves - kWarmUpWaves));
    }
    double tokens_per_s() const {
        std::map<std::int32_t, double> begin;
        std::map<std::int32_t, double> end;
        for (const auto& [request, at] : last_) {
            if (!counts(request)) continue;
            const std::int32_t wave = wave_of(request);
            begin.try_emplace(wave, std::numeric_limits<double>::max());
            begin[wave] = std::min(begin[wave], created_.at(request));
            end[wave] = std::max(end[wave], at);
        }
        double took_s = 0;
        for (const auto& [wave, at] : end) took_s += at - begin.at(wave);
        return kAtATime * kAnswer * static_cast<double>(end.size()) / took_s;
    }

  private:
    std::int32_t wave_of(std::uint64_t request) const {
        double earliest = std::numeric_limits<double>::max();
        for (const auto& [other, at] : created_) earliest = std::min(earliest, at);
        return static_cast<std::int32_t>((created_.at(request) - earliest + 1) / kWaveEvery_s);
    }
    bool counts(std::uint64_t request) const { return wave_of(request) >= kWarmUpWaves; }

    std::map<std::uint64_t, double> created_;
    std::map<std::uint64_t, double> first_;
    std::map<std::uint64_t, double> last_;
};

struct Served {
    double tokens_per_s = 0;
    double ttft_s = 0;
};

// Of so many workers of one host with so much of its cores each, which have a stage each.
Served served_by(std::int32_t workers, const std::string& type, double core_share) {
    spec::ClusterSpec cluster;
    const HalvedCost costs;
    HelixSetup setup;
    for (std::int32_t i = 0; i < workers; ++i) {
        spec::NodeSpec node;
        node.name = "w" + std::to_string(i);
        node.type = type;
        node.host = "h";
        node.core_share = core_share;
        cluster.nodes.push_back(node);
        setup.placement.layers.push_back(
            {kModelLayers * i / workers, kModelLayers * (i + 1) / workers});
        setup.kv_tokens.push_back(40'000);
    }
    for (std::int32_t i = 0; i <= workers; ++i) {
        const std::int32_t from = i == 0 ? spec::kCoordinator : i - 1;
        const std::int32_t to = i == workers ? spec::kCoordinator : i;
        setup.flows.push_back({from, to, 100});
        cluster.links.push_back({from, to, 1.25e9, 0.0001});
        if (workers > 1) cluster.links.push_back({to, from, 1.25e9, 0.0001});
    }
    setup.cluster = &cluster;
    setup.costs = &costs;
    setup.model.n_layers = kModelLayers;
    setup.model.activation_bytes_per_token = 8192;
    setup.model.token_bytes = 4;
    setup.overheads.lone_decode_doubles = false;
    setup.lengths = LengthSource({{64, kAnswer}}, LengthOrder::recorded);
    OnlineLoad load;
    load.process = ArrivalProcess::listed;
    for (std::int32_t wave = 0; wave < kWaves; ++wave) {
        for (std::int32_t i = 0; i < kAtATime; ++i) {
            load.listed.push_back({kWaveEvery_s * wave + 0.001 * i, {64, kAnswer}});
        }
    }
    load.tokens_per_s = kAtATime * (64 + kAnswer) / kWaveEvery_s;
    setup.online = load;
    setup.warmup_s = 0;
    setup.duration_s = kWaveEvery_s * kWaves;
    WaveWatch watch;
    setup.observer = &watch;
    const auto report = run_helix(setup);
    EXPECT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(watch.finished(), static_cast<std::size_t>(kAtATime * kWaves));
    return {watch.tokens_per_s(), watch.ttft_s()};
}

TEST(SharedCores, TwoHalvesOfAMachineServeWhatTheWholeDoes) {
    const Served whole = served_by(1, "whole", 1);
    const Served halves = served_by(2, "half", 0.5);
    EXPECT_GE(halves.tokens_per_s, 0.95 * whole.tokens_per_s);
    EXPECT_LE(halves.ttft_s, 1.2 * whole.ttft_s);
}

TEST(SharedCores, TwoThatTakeTheCoresFromEachOtherComputeInTurn) {
    const Served halves = served_by(2, "half", 0.5);
    const Served rivals = served_by(2, "half", 1);
    EXPECT_LT(rivals.tokens_per_s, 0.8 * halves.tokens_per_s) << "half of the stages idle";
}

}  // namespace
}  // namespace helix::sim::shared_cores_test
