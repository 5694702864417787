// Machines of unequal speed under load: none may be worked so badly that its queue grows while it
// could do its share.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "base/effort.h"
#include "sim/load/load.h"
#include "sim/throughput/helix_run.h"

namespace helix::sim::unequal_machines_test {
namespace {

// Of one layer, in seconds: a batch of decodes, each of them, a batch of prompt rows, each row.
struct LayerTimes {
    double decodes_s = 0;
    double decode_s = 0;
    double prompts_s = 0;
    double row_s = 0;
};

class UnequalCost final : public spec::CostModel {
  public:
    double layer_s(const spec::NodeSpec& node, std::int32_t decode_seqs,
                   std::int32_t prefill_tokens) const override {
        const LayerTimes& times = times_.at(node.type);
        if (weights_once) {  // per batch, whatever is in it
            return times.decodes_s + times.decode_s * decode_seqs + times.row_s * prefill_tokens;
        }
        return (decode_seqs > 0 ? times.decodes_s + times.decode_s * decode_seqs : 0) +
               (prefill_tokens > 0 ? times.prompts_s + times.row_s * prefill_tokens : 0);
    }

    bool weights_once = false;

  private:
    std::map<std::string, LayerTimes> times_ = {{"big", {0.0007, 0.000006, 0.0008, 0.000010}},
                                                {"mid", {0.0016, 0.000015, 0.0016, 0.000025}},
                                                {"small", {0.0040, 0.000030, 0.0040, 0.000070}}};
};

struct Bed {
    spec::ClusterSpec cluster;
    UnequalCost costs;
    HelixSetup setup;
};

// 48 layers; the ranges of the second and the fourth machine overlap with those of others. The
// flows are what a plan for these speeds has.
std::unique_ptr<Bed> four_machines() {
    auto bed = std::make_unique<Bed>();
    const auto add = [&](const char* type, spec::LayerRange layers) {
        spec::NodeSpec node;
        node.name = "n" + std::to_string(bed->cluster.nodes.size());
        node.type = type;
        bed->cluster.nodes.push_back(node);
        bed->setup.placement.layers.push_back(layers);
        bed->setup.kv_tokens.push_back(40'000);
    };
    add("big", {0, 30});
    add("mid", {22, 48});
    add("mid", {30, 48});
    add("small", {0, 22});
    constexpr std::int32_t kEnd = spec::kCoordinator;
    bed->setup.flows = {{kEnd, 0, 2389}, {kEnd, 3, 547},  {0, 1, 732},    {0, 2, 1657},
                        {3, 1, 547},     {1, kEnd, 1279}, {2, kEnd, 1657}};
    for (const spec::LinkFlow& flow : bed->setup.flows) {
        bed->cluster.links.push_back({flow.from, flow.to, 1.25e9, 0.0003});
    }
    bed->setup.cluster = &bed->cluster;
    bed->setup.costs = &bed->costs;
    bed->setup.model.n_layers = 48;
    bed->setup.model.activation_bytes_per_token = 8192;
    bed->setup.model.token_bytes = 2;
    std::vector<RequestLength> lengths;
    for (std::int32_t i = 0; i < 64; ++i) {
        lengths.push_back({40 + i * 37 % 64 * 360 / 63, 8 + i * 23 % 64 * 32 / 63});
    }
    bed->setup.lengths = LengthSource(lengths, LengthOrder::sampled);
    bed->setup.warmup_s = 30;
    bed->setup.duration_s = 150;
    return bed;
}

void expect_soon(Bed& bed, double tokens_per_s) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
        bed.setup.seed = seed;
        bed.setup.online = OnlineLoad{ArrivalProcess::poisson, tokens_per_s, {}};
        const auto report = run_helix(bed.setup);
        ASSERT_TRUE(report.ok()) << report.error().message;
        EXPECT_LT(report->ttft.p50, 1.5) << "seed " << seed;
        EXPECT_LT(report->ttft.p99, 6) << "seed " << seed;
    }
}

double saturated_tokens_per_s(const Bed& bed) {
    const auto report = run_helix(bed.setup);
    EXPECT_TRUE(report.ok()) << report.error().message;
    return report->prompt_tokens_per_s + report->decode_tokens_per_s;
}

// tokens/s: about the highest even rate that they keep up with.
constexpr double kPeak = 1880;
constexpr double kPeakWeightsOnce = 3000;

TEST(UnequalMachines, SaturatedTheyServeAboutWhatTheyServeAtTheirPeak) {
    const auto bed = four_machines();
    EXPECT_GT(saturated_tokens_per_s(*bed), 0.95 * kPeak);
    bed->costs.weights_once = true;
    EXPECT_GT(saturated_tokens_per_s(*bed), 0.95 * kPeakWeightsOnce);
}

TEST(UnequalMachines, AtThreeQuartersOfTheirPeakNoPathFallsBehind) {
    const auto bed = four_machines();
    expect_soon(*bed, 0.75 * kPeak);
    if (kSanitized) return;
    bed->costs.weights_once = true;
    expect_soon(*bed, 0.75 * kPeakWeightsOnce);
}

}  // namespace
}  // namespace helix::sim::unequal_machines_test
