// Attention over pages of every type on a Vulkan device: the CPU device's bits.

#include <numeric>

#include "engine/ops/kv_type.h"
#include "vulkan_fixture.h"

namespace helix::engine::test::vulkan_attention_test {
namespace {

// Rows of two sequences: the last `rows` of `positions`.
struct Case {
    int n_heads, n_kv_heads, head_dim, block_size, positions;
    std::int64_t rows;
    std::int32_t window = 0;
};
constexpr Case kCases[] = {
    {1, 1, 8, 4, 1, 1},             // one position
    {4, 2, 16, 16, 37, 37},         // a prompt
    {6, 2, 20, 5, 130, 1},          // over two chunks, taken apart
    {3, 1, 64, 16, 300, 2},         // over three
    {8, 4, 24, 16, 270, 40},        // too many rows to take chunks apart
    {4, 4, 32, 16, 290, 3, 100},    // a window that begins within a chunk
    {2, 1, 136, 32, 150, 70, 130},  // more dimensions than lanes
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
        const auto keys =
            make(device, random_floats(random, base::size_of(2 * c.positions * width), 2));
        const auto values =
            make(device, random_floats(random, base::size_of(2 * c.positions * width), 2));
        device.kv_store({**kv, *keys, *values, all});
        const std::int64_t floats = 2 * c.rows * c.n_heads * c.head_dim;
        const auto q = make(device, random_floats(random, base::size_of(floats), 2));
        const auto out = poisoned(device, floats);
        device.attention({**kv, *q, *out, c.n_heads, c.window, last});
        return values_of(device, *out);
    }
};

TEST_P(VulkanAttention, GivesTheBitsOfTheCpu) {
    for (const Case& c : kCases) {
        EXPECT_TRUE(same_floats(attend(*vulkan_, c, GetParam()), attend(*cpu_, c, GetParam())))
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
    constexpr std::int64_t kRows = 65'600;
    EXPECT_TRUE(same_floats(attend(*vulkan_, kRows), attend(*cpu_, kRows)));
}

INSTANTIATE_TEST_SUITE_P(Types, VulkanAttention,
                         testing::Values(ops::KvType::f16, ops::KvType::bf16, ops::KvType::f32,
                                         ops::KvType::q8),
                         [](const auto& type) { return std::string(ops::to_string(type.param)); });

}  // namespace
}  // namespace helix::engine::test::vulkan_attention_test
