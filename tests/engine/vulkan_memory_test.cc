// A device that has too little memory: what needs it is an error that says so, and what only wishes
// for it is done another way, to the same bits.

#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/effort.h"
#include "engine/runner/model_runner.h"
#include "runner.h"
#include "synth_file.h"
#include "vulkan_fixture.h"

namespace helix::engine::test::vulkan_memory_test {
namespace {

class VulkanMemoryLimit : public VulkanTest {
  protected:
    std::unique_ptr<Device> device_with(std::int64_t most_bytes) {
        auto device = VulkanDevice::create(checked_->instance(),
                                           {.device = "0", .threads = 1, .most_bytes = most_bytes});
        CHECK(device.ok());
        return std::move(*device);
    }
    std::unique_ptr<Backend> backend_of(const SynthFile& file, std::int64_t most_bytes,
                                        std::int64_t memory_bytes) {
        auto weights = model::LocalWeights::open(file.path());
        CHECK(weights.ok());
        auto config = model::read_model_config(**weights);
        CHECK(config.ok());
        RunnerOptions options;
        options.memory_bytes = memory_bytes;
        options.block_size = 5;
        auto backend =
            ModelRunner::create(std::shared_ptr<model::WeightSource>(std::move(*weights)), *config,
                                device_with(most_bytes), options);
        CHECK(backend.ok());
        return std::move(*backend);
    }
};

TEST_F(VulkanMemoryLimit, ChunksOfAttentionAreNotTakenApartWhereTheirSumsHaveNoRoom) {
    const proof::AttentionCase c{ops::KvType::f16, 32, 1, 16, 16, 1024, 32};
    const std::int64_t sums = std::int64_t{4} * c.rows * c.n_heads * (c.positions / 128) * 18;
    // Queries and output take as much as is there besides, so keys and values come off the sums'
    // share.
    const std::int64_t besides = std::int64_t{2} * 4 * c.rows * c.n_heads * c.head_dim;
    const auto tight = device_with(sums + besides);
    EXPECT_TRUE(
        same_values(proof::attention_values(*tight, c, 79), proof::attention_values(*cpu_, c, 79)));
    EXPECT_FALSE(tight->make_buffer(sums / 4).ok()) << "there was room";
}

TEST_F(VulkanMemoryLimit, ALoadForWhichThereIsNoMemorySaysSo) {
    const SynthFile file(shape_of(kQwen3), TensorType::q8_0);
    const auto backend = backend_of(file, 4 << 20, 64 << 20);
    for (int again = 0; again < 2; ++again) {
        const auto pages = backend->load(kAllLayers);
        ASSERT_FALSE(pages.ok());
        EXPECT_EQ(pages.error().code, base::Errc::unavailable);
        EXPECT_THAT(pages.error().message, testing::HasSubstr("of 4194304 are taken"));
    }
    EXPECT_TRUE(backend->load({}).ok());
    EXPECT_FALSE(backend->lost());
}

// Without a budget of its own it plans with what there is.
TEST_F(VulkanMemoryLimit, WhatThereIsIsPlannedWith) {
    if (kSanitized) GTEST_SKIP() << "no sanitizer sees the device; the next tests limit it, too";
    const SynthFile file(shape_of(kQwen3), TensorType::q8_0);
    Runner limited(backend_of(file, 16 << 20, 0), kAllLayers, 5, 2);
    Runner cpu = make_runner(file, kAllLayers, test_options(5, 2), 1);
    base::Random random(87);
    const auto tokens = random_tokens(random, 200);
    const std::vector<Piece> pieces = {piece_of(1, kAllLayers, 0, tokens)};
    const auto right = must_run(cpu, pieces);
    const auto got = must_run(limited, pieces);
    EXPECT_EQ(got[0].token, right[0].token);
}

}  // namespace
}  // namespace helix::engine::test::vulkan_memory_test
