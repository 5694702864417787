// KV pages of a Vulkan device: what is stored, moved and travels has the CPU device's bytes.

#include <cstddef>
#include <thread>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "vulkan_fixture.h"

namespace helix::engine::test::vulkan_kv_test {
namespace {

using VulkanKv = VulkanTest;

std::vector<std::byte> random_page(base::Random& random, const ops::KvLayout& layout) {
    std::vector<std::byte> bytes(base::size_of(layout.page_bytes()));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
    return bytes;
}

std::unique_ptr<KvArena> arena(Device& device, const ops::KvLayout& layout, std::int64_t pages,
                               std::int64_t swap_pages) {
    auto made = device.make_kv_arena(layout, pages, swap_pages);
    CHECK(made.ok());
    return std::move(*made);
}

std::vector<std::byte> page_of(const KvArena& kv, core::PageId page, const ops::KvLayout& layout) {
    std::vector<std::byte> bytes(base::size_of(layout.page_bytes()));
    EXPECT_TRUE(kv.read(page, bytes.data()).ok());
    return bytes;
}

ops::KvLayout layout_of(ops::KvType type, int heads, int head_dim, int block_size) {
    ops::KvLayout layout;
    layout.type = type;
    layout.n_kv_heads = heads;
    layout.head_dim = head_dim;
    layout.block_size = block_size;
    return layout;
}

TEST_F(VulkanKv, StoresRowsOfSeveralSequences) {
    for (const ops::KvType type :
         {ops::KvType::f16, ops::KvType::bf16, ops::KvType::f32, ops::KvType::q8}) {
        for (const auto& [heads, dim, block] : {std::tuple{1, 8, 5}, {2, 20, 16}, {4, 64, 7}}) {
            const proof::KvStoreCase c{type, heads, dim, block};
            EXPECT_TRUE(same_values(proof::kv_store_values(*vulkan_, c, 81),
                                    proof::kv_store_values(*cpu_, c, 81)))
                << "type " << static_cast<int>(type) << ", head " << dim << ", block " << block;
        }
    }
}

TEST_F(VulkanKv, SwapsAndCopiesPagesAsThePlanSays) {
    base::Random random(82);
    const ops::KvLayout layout = layout_of(ops::KvType::q8, 2, 24, 5);
    std::vector<std::vector<std::byte>> pages;
    for (int i = 0; i < 6; ++i) pages.push_back(random_page(random, layout));
    core::BatchPlan out;
    out.swap_out = {{.page = 0, .slot = 2}, {.page = 5, .slot = 0}};
    out.copies = {{.from = 1, .to = 0}, {.from = 0, .to = 5}};
    core::BatchPlan in;
    in.swap_in = {{.page = 3, .slot = 2}, {.page = 1, .slot = 0}};
    in.copies = {{.from = 3, .to = 4}};
    const auto on = [&](Device& device) {
        const auto kv = arena(device, layout, 6, 3);
        EXPECT_EQ(kv->pages(), 6);
        EXPECT_EQ(kv->swap_pages(), 3);
        for (core::PageId i = 0; i < 6; ++i) CHECK(kv->write(i, pages[i].data()).ok());
        EXPECT_TRUE(kv->move(out).ok());
        EXPECT_TRUE(kv->move(in).ok());
        std::vector<std::vector<std::byte>> all;
        for (core::PageId i = 0; i < 6; ++i) all.push_back(page_of(*kv, i, layout));
        return all;
    };
    const auto moved = on(*vulkan_);
    EXPECT_TRUE(moved == on(*cpu_));
    EXPECT_TRUE(moved[3] == pages[0] && moved[1] == pages[5] && moved[5] == pages[1]);
}

TEST_F(VulkanKv, PagesTravelWhileOperatorsWork) {
    base::Random random(83);
    const ops::KvLayout layout = layout_of(ops::KvType::f16, 2, 32, 16);
    const auto kv = arena(*vulkan_, layout, 4, 0);
    const auto x = random_floats(random, 256);
    std::vector<std::vector<std::byte>> sent;
    for (int i = 0; i < 20; ++i) sent.push_back(random_page(random, layout));
    int wrong = 0;
    std::thread traveller([&] {
        for (const auto& page : sent) {
            if (!kv->write(2, page.data()).ok() || page_of(*kv, 2, layout) != page) ++wrong;
        }
    });
    const auto buffer = make(*vulkan_, x);
    const auto on_cpu = make(*cpu_, x);
    for (int i = 0; i < 200; ++i) {
        vulkan_->rms_norm({*buffer, *buffer, *buffer, 1, 256, 1e-5F});
        cpu_->rms_norm({*on_cpu, *on_cpu, *on_cpu, 1, 256, 1e-5F});
        if (i % 20 == 0) values_of(*vulkan_, *buffer);
    }
    traveller.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_TRUE(same_floats(values_of(*vulkan_, *buffer), values_of(*cpu_, *on_cpu)));
}

}  // namespace
}  // namespace helix::engine::test::vulkan_kv_test
