// Attention over pages of every type on a Vulkan device: the CPU device's bits.

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/ops/kv_type.h"
#include "vulkan_fixture.h"

namespace helix::engine::test::vulkan_attention_test {
namespace {

// Rows of two sequences: the last `rows` of `positions`.
struct Case {
    int n_heads, n_kv_heads, head_dim, block_size, positions;
    std::int64_t rows;
    std::int32_t window = 0;
    bool infinite = false;  // the keys of the first chunk
};
constexpr Case kCases[] = {
    {2, 1, 8, 4, 1, 1},              // one position
    {4, 2, 16, 16, 37, 37},          // a prompt
    {4, 2, 20, 5, 130, 1},           // over two chunks, taken apart
    {2, 1, 64, 16, 300, 2},          // over three
    {8, 4, 8, 16, 140, 128},         // too many rows to take chunks apart
    {8, 4, 8, 16, 140, 128, 60},     // the same, with a window that begins within a chunk
    {4, 2, 32, 16, 290, 3, 100},     // such a window, taken apart
    {2, 1, 16, 16, 140, 2, 0, true}  // sums of nothing
};
// What is the same for every type of pages.
constexpr Case kMoreCases[] = {
    {2, 1, 136, 32, 150, 70, 130},  // more dimensions than lanes
    {2, 1, 520, 16, 20, 3},         // so many that queries share nothing
    {5, 1, 16, 8, 200, 9},          // a group of heads that has no rows beside it
    {24, 2, 64, 16, 140, 5},        // one that is too large for a workgroup
};

class VulkanAttention : public VulkanTest, public testing::WithParamInterface<ops::KvType> {
  protected:
    static std::vector<float> attend(Device& device, const Case& c, ops::KvType type) {
        base::Random random(77);
        ops::KvLayout layout;
        layout.type = type;
        layout.n_kv_heads = c.n_kv_heads;
        layout.head_dim = c.head_dim;
        layout.block_size = c.block_size;
        const int blocks = (c.positions + c.block_size - 1) / c.block_size;
        auto kv = device.make_kv_arena(layout, 2 * blocks + 1, 0);
        CHECK(kv.ok());
        // Every second page is of the other sequence; the last comes first.
        std::vector<core::PageId> pages[2];
        for (int b = 0; b < blocks; ++b) {
            for (int s = 0; s < 2; ++s)
                pages[s].push_back(static_cast<core::PageId>(2 * (blocks - b) - s));
        }
        const std::int64_t width = std::int64_t{c.n_kv_heads} * c.head_dim;
        std::vector<ops::SequenceRows> all, last;
        for (int s = 0; s < 2; ++s) {
            all.push_back({std::int64_t{s} * c.positions, c.positions, 0, pages[s]});
            last.push_back(
                {s * c.rows, c.rows, static_cast<std::int32_t>(c.positions - c.rows), pages[s]});
        }
        auto key_values = random_floats(random, base::size_of(2 * c.positions * width), 2);
        if (c.infinite) {
            for (std::int64_t s = 0; s < 2; ++s)
                std::fill_n(key_values.begin() + s * c.positions * width, 128 * width,
                            -std::numeric_limits<float>::infinity());
        }
        const auto keys = make(device, key_values);
        const auto values =
            make(device, random_floats(random, base::size_of(2 * c.positions * width), 2));
        device.kv_store({**kv, *keys, *values, all});
        const std::int64_t floats = 2 * c.rows * c.n_heads * c.head_dim;
        auto query = random_floats(random, base::size_of(floats), 2);
        if (c.infinite)
            for (float& each : query) each = std::abs(each);
        const auto q = make(device, query);
        const auto out = poisoned(device, floats);
        device.attention({**kv, *q, *out, c.n_heads, c.window, last});
        return values_of(device, *out);
    }
    // Both devices.
    void compare(std::span<const Case> cases, ops::KvType type);
};

void VulkanAttention::compare(std::span<const Case> cases, ops::KvType type) {
    for (const Case& c : cases) {
        EXPECT_TRUE(same_floats(attend(*vulkan_, c, type), attend(*cpu_, c, type)))
            << c.positions << " positions, " << c.rows << " rows, dimension " << c.head_dim;
    }
}

TEST_P(VulkanAttention, GivesTheBitsOfTheCpu) {
    compare(kCases, GetParam());
    if (GetParam() == ops::KvType::f16) compare(kMoreCases, ops::KvType::f16);
}

INSTANTIATE_TEST_SUITE_P(Types, VulkanAttention,
                         testing::Values(ops::KvType::f16, ops::KvType::bf16, ops::KvType::f32,
                                         ops::KvType::q8),
                         [](const auto& type) { return std::string(ops::to_string(type.param)); });

}  // namespace
}  // namespace helix::engine::test::vulkan_attention_test
