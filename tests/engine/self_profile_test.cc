// How a backend times itself: what is reported is the device's work, whatever it takes to warm up.

#include "engine/backend/self_profile.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/effort.h"
#include "base/index.h"
#include "checked_vulkan.h"
#include "synth_file.h"

namespace helix::engine::test::self_profile_test {
namespace {

constexpr double kLayer_s = 0.004;
constexpr double kCompiling_s = 0.4;

// A device of its own. It takes its time only where rows are handed on, since nobody waits for it
// else; and longer for the first batch of so many rows, as if shaders were compiled for it.
class LazyBackend final : public Backend {
  public:
    base::Result<std::int64_t> load(spec::LayerRange /*layers*/) override { return 1000; }
    void drop_kv() override {}
    std::int32_t hidden_size() const override { return 8; }
    base::Result<BatchResult> run(const core::BatchPlan& plan,
                                  const PayloadRows& payload) override {
        std::size_t rows = 0;
        BatchResult result;
        for (const core::BatchChunk& chunk : plan.chunks) {
            EXPECT_EQ(payload(chunk.input).size(), chunk.tokens.size() * 8);
            rows += chunk.tokens.size();
        }
        const bool waits = plan.chunks.back().output_row >= 0;
        EXPECT_TRUE(!waits || plan.output_rows == std::ssize(plan.chunks.back().tokens));
        double seconds = waits ? kLayer_s : 0;
        if (known_.insert(rows).second) seconds += kCompiling_s;
        std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
        return result;
    }

  private:
    std::set<std::size_t> known_;
};

TEST(SelfProfile, WaitsForTheDeviceAndLeavesCompilingOut) {
    LazyBackend backend;
    const auto profile = measure_layer(backend, 1, 16);
    ASSERT_TRUE(profile.ok()) << profile.error().message;
    for (const double seconds : {profile->decode_s_per_layer, profile->decode_batch_s_per_layer,
                                 profile->prefill_s_per_token_layer * kProfilePrompt}) {
        EXPECT_GE(seconds, kLayer_s);
        EXPECT_LT(seconds, kCompiling_s / 2);
    }
}

// What a worker on a Vulkan device reports is not the time that commands take to be recorded: it is
// what a batch takes whose rows come back.
TEST(SelfProfile, OfAVulkanDeviceIsWhatItsBatchesTake) {
    if (kSanitized) GTEST_SKIP() << "no sanitizer sees the device, and it is about its times";
    const auto vulkan = CheckedVulkan::open();
    if (vulkan == nullptr) GTEST_SKIP() << "no Vulkan device";
    const SynthFile file(shape_of(kQwen3), model::TensorType::q8_0);
    constexpr std::int32_t kBlock = 16;
    auto backend = vulkan->open_backend(file.path(), kBlock);
    ASSERT_TRUE(backend.ok()) << backend.error().message;
    ASSERT_TRUE((*backend)->load({1, 2}).ok());
    const auto profile = measure_layer(**backend, 1, kBlock);
    ASSERT_TRUE(profile.ok()) << profile.error().message;
    core::BatchPlan plan;
    core::BatchChunk chunk;
    chunk.key.request = core::RequestId{1};
    chunk.layers = {1, 2};
    chunk.tokens.assign(base::size_of(kProfilePrompt), 0);
    chunk.input = {kProfileBuffer, 0, static_cast<std::uint32_t>(kProfilePrompt)};
    chunk.output_row = 0;
    plan.output_rows = kProfilePrompt;
    for (core::PageId page = 0; page * kBlock < kProfilePrompt; ++page) chunk.pages.push_back(page);
    plan.chunks.push_back(chunk);
    const std::vector<float> rows = profile_rows(kProfilePrompt, (*backend)->hidden_size());
    double least_s = 1e9;
    for (int i = 0; i < 10; ++i) {
        plan.id = core::kFirstBatch + 100 + static_cast<std::uint64_t>(i);
        const auto before = std::chrono::steady_clock::now();
        ASSERT_TRUE(
            (*backend)
                ->run(plan, [&](const core::PayloadRef&) { return std::span<const float>(rows); })
                .ok());
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - before;
        least_s = std::min(least_s, took.count());
    }
    // The median of several is hardly below the least of ten others.
    EXPECT_GT(profile->prefill_s_per_token_layer * kProfilePrompt, 0.7 * least_s);
    EXPECT_EQ(vulkan->objections(), "");
}

}  // namespace
}  // namespace helix::engine::test::self_profile_test
