// Attention over pages of every type on a Vulkan device: the CPU device's bits.

#include <numeric>
#include <span>
#include <vector>

#include "base/effort.h"
#include "engine/ops/kv_type.h"
#include "vulkan_fixture.h"

namespace helix::engine::test::vulkan_attention_test {
namespace {

std::vector<proof::AttentionCase> cases_of(ops::KvType type) {
    return {
        {type, 2, 1, 8, 4, 1, 1},              // one position
        {type, 4, 2, 16, 16, 37, 37},          // a prompt
        {type, 4, 2, 20, 5, 130, 1},           // over two chunks, taken apart
        {type, 2, 1, 64, 16, 300, 2},          // over three
        {type, 8, 4, 8, 16, 140, 128},         // too many rows to take chunks apart
        {type, 8, 4, 8, 16, 140, 128, 60},     // the same, with a window that begins within a chunk
        {type, 4, 2, 32, 16, 290, 3, 100},     // such a window, taken apart
        {type, 2, 1, 16, 16, 140, 2, 0, true}  // sums of nothing
    };
}
// What is the same for every type of pages.
const std::vector<proof::AttentionCase> kMoreCases = {
    {ops::KvType::f16, 2, 1, 136, 32, 150, 70, 130},  // more dimensions than lanes
    {ops::KvType::f16, 2, 1, 520, 16, 20, 3},         // so many that queries share nothing
    {ops::KvType::f16, 5, 1, 16, 8, 200, 9},          // a group of heads with no rows beside it
    {ops::KvType::f16, 24, 2, 64, 16, 140, 5},        // one that is too large for a workgroup
    {ops::KvType::f16, 4, 2, 20, 5, 130, 1, 0, false, 0, 0, true},     // sinks, taken apart
    {ops::KvType::f16, 8, 4, 8, 16, 140, 128, 60, false, 0, 0, true},  // sinks, not taken apart
    // Chunks of 70 positions, of which a workgroup's rows are in two; taken apart, and not.
    {ops::KvType::f16, 4, 2, 16, 16, 300, 40, 70, false, 0, 0, false, 1, true},
    {ops::KvType::f16, 8, 4, 8, 16, 290, 128, 130, false, 0, 0, false, 1, true},
    // Both ways: taken apart, and not.
    {ops::KvType::f16, 4, 4, 16, 16, 37, 37, 0, false, 0, 0, false, 1, false, true},
    {ops::KvType::f16, 2, 2, 8, 5, 200, 200, 0, false, 0, 0, false, 1, false, true},
    // Within windows: taken apart, and not, where the first rows of a workgroup end before its last
    // ones begin.
    {ops::KvType::f16, 2, 1, 16, 16, 300, 40, 90, false, 0, 0, false, 1, false, true},
    {ops::KvType::f16, 2, 2, 8, 5, 200, 200, 8, false, 0, 0, false, 1, false, true},
    {ops::KvType::f16, 8, 4, 8, 16, 400, 400, 130, false, 0, 0, false, 1, false, true},
    // A window that is all of a text.
    {ops::KvType::f16, 2, 2, 8, 5, 140, 140, 500, false, 0, 0, false, 1, false, true},
};

class VulkanAttention : public VulkanTest, public testing::WithParamInterface<ops::KvType> {
  protected:
    // Both devices.
    void compare(std::span<const proof::AttentionCase> cases);
};

void VulkanAttention::compare(std::span<const proof::AttentionCase> cases) {
    for (const proof::AttentionCase& c : cases) {
        EXPECT_TRUE(same_values(proof::attention_values(*vulkan_, c, 77),
                                proof::attention_values(*cpu_, c, 77)))
            << c.positions << " positions, " << c.rows << " rows, dimension " << c.head_dim;
    }
}

class VulkanRows : public VulkanTest {
  protected:
    // Each row sees itself alone.
    static std::vector<float> attend(Device& device, std::int64_t rows) {
        constexpr std::int64_t kWidth = 8;
        ops::KvLayout layout;
        layout.n_kv_heads = 1;
        layout.head_dim = kWidth;
        layout.block_size = 1024;
        std::vector<core::PageId> pages(base::size_of((rows + 1023) / 1024));
        std::iota(pages.begin(), pages.end(), 0);
        auto kv = device.make_kv_arena(layout, std::ssize(pages), 0);
        CHECK(kv.ok());
        base::Random random(78);
        const auto values = make(device, random_floats(random, base::size_of(rows * kWidth), 2));
        const auto out = poisoned(device, rows * kWidth);
        const std::vector<ops::SequenceRows> sequences{{0, rows, 0, pages}};
        device.kv_store({**kv, *values, *values, sequences});
        device.attention({**kv, *values, *out, 1, 1, sequences});
        return values_of(device, *out);
    }
};

TEST_F(VulkanRows, MayBeMoreThanADispatchHasWorkgroups) {
    if (kSanitized) GTEST_SKIP() << "no sanitizer sees the device, and it takes half a minute";
    constexpr std::int64_t kRows = 525'000;  // a workgroup has eight
    EXPECT_TRUE(same_floats(attend(*vulkan_, kRows), attend(*cpu_, kRows)));
}

TEST_P(VulkanAttention, GivesTheBitsOfTheCpu) {
    compare(cases_of(GetParam()));
    if (GetParam() == ops::KvType::f16) compare(kMoreCases);
}

class VulkanHalves : public VulkanAttention {};

TEST_P(VulkanHalves, AreTheSameFloatsWhereTheDeviceDoesNotUnpackThem) {
    static_cast<VulkanDevice&>(*vulkan_).use_unpacked_halves(false);
    compare(std::vector<proof::AttentionCase>{{GetParam(), 4, 2, 20, 5, 130, 1},
                                              {GetParam(), 4, 2, 16, 16, 37, 37}});
}

INSTANTIATE_TEST_SUITE_P(F16, VulkanHalves, testing::Values(ops::KvType::f16),
                         [](const auto& type) { return std::string(ops::to_string(type.param)); });
// No sanitizer sees what a device computes, and what the machine does for it is the same for all.
std::vector<ops::KvType> kv_types() {
    if (kSanitized) return {ops::KvType::q8};
    return {ops::KvType::f16, ops::KvType::bf16, ops::KvType::f32, ops::KvType::q8};
}
INSTANTIATE_TEST_SUITE_P(Types, VulkanAttention, testing::ValuesIn(kv_types()),
                         [](const auto& type) { return std::string(ops::to_string(type.param)); });

}  // namespace
}  // namespace helix::engine::test::vulkan_attention_test
