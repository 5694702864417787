// Models whose last layers read the keys and values of layers before them, and take no pages.

#include <gtest/gtest.h>

#include <algorithm>

#include "core/coordinator/kv_demand.h"
#include "core/kv/block_pool.h"
#include "core/kv/block_table.h"
#include "core/worker_driver.h"

namespace helix::core::shared_kv_test {
namespace {

using Driver = WorkerDriver;

constexpr std::int32_t kBlock = 4;

std::int64_t missing(const std::vector<PageId>& pages) {
    return std::count(pages.begin(), pages.end(), kNoPage);
}
RowTokens tokens(std::int32_t n) {
    RowTokens all;
    for (Token t = 0; t < n; ++t) all.push_back(t);
    return all;
}

class SharedKvTable : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(NamedOrNot, SharedKvTable, testing::Bool());

TEST_P(SharedKvTable, HasPagesOfTheOtherLayersOnly) {
    KvBlockPool pool(100);
    BlockTable table({2, 6}, {2, 4}, kBlock, GetParam());
    std::vector<PageCopy> copies;
    EXPECT_EQ(table.pages_to_hold(12), 6);
    EXPECT_EQ(table.least_pages_to_hold(12), 6);
    table.make_writable(0, 12, pool, copies);
    EXPECT_EQ(pool.used(), 6);
    BlockTable child = table.fork(10, pool);
    const std::vector<PageId> pages = child.flatten(10);
    ASSERT_EQ(pages.size(), 12U);
    EXPECT_EQ(missing(pages), 6);
    EXPECT_EQ(std::find(pages.begin(), pages.end(), kNoPage) - pages.begin(), 6);
    EXPECT_EQ(table.writable_with(5, 10, pool), 12 + 4) << "a copy and a block";
    table.make_writable(10, 13, pool, copies);
    EXPECT_EQ(copies.size(), 2U);
    EXPECT_EQ(pool.used(), 6 + 2 + 2);
    child.release_all(pool);
    table.release_all(pool);
    EXPECT_EQ(pool.used(), 0);
}

// A worker of two layers, of which the second has no pages.
WorkerConfig shared() {
    WorkerConfig config = Driver::small();
    config.shared_kv_layers = 1;
    return config;
}

TEST(SharedKvWorker, ItsSequencesComeGoAndReturnWithThePagesThatTheyHave) {
    Driver worker(40, 40, shared());
    worker.say(StageInputs{{worker.start(Driver::key(1), tokens(12))}});
    ASSERT_EQ(worker.plan().chunks.size(), 1U);
    const std::vector<PageId> pages = worker.plan().chunks[0].pages;
    ASSERT_EQ(pages.size(), 6U) << "as many for each layer";
    EXPECT_EQ(missing({pages.begin(), pages.begin() + 3}), 0);
    EXPECT_EQ(missing({pages.begin() + 3, pages.end()}), 3);
    worker.finish();
    EXPECT_EQ(worker.report().used_pages, 3);
    worker.say(SwapSequences{true, {Driver::key(1)}});
    EXPECT_EQ(worker.plan().swap_out.size(), 3U);
    worker.finish();
    EXPECT_EQ(worker.report().swapped_pages, 3);
    worker.say(StageInputs{{Driver::rows(Driver::key(1), 12, {1})}});
    worker.say(SwapSequences{false, {Driver::key(1)}});
    EXPECT_EQ(worker.plan().swap_in.size(), 3U);
    worker.drain();
    EXPECT_EQ(worker.report().used_pages, 4);
    worker.say(FreeSequences{{Driver::key(1)}});
    EXPECT_EQ(held_when_idle(worker.worker()), "");
}

TEST(SharedKvWorker, SendsWhatThereIsAndRefusesWhatThereIsNot) {
    Driver worker(40, 0, shared());
    worker.run(worker.start(Driver::key(1), tokens(12)));
    SendKv send{{1}, 1, 2, 1, {5}, {0, 1}, {{0, 0, 12}}};
    worker.say(send);
    const auto out = find<ExportKv>(worker.actions());
    ASSERT_TRUE(out.has_value());
    EXPECT_EQ(out->pages.size(), 3U);
    worker.step(KvExported{out->transfer});
    send.layers = {0, 2};
    worker.say(send);
    ASSERT_EQ(worker.said<KvRefused>().size(), 1U);
    EXPECT_EQ(worker.said<KvRefused>()[0].reason, "member 0 does not run these layers here");
}

TEST(SharedKvWorker, LayersAwayFromWhatTheyReadAreRefused) {
    Driver worker(40, 0, shared(), {{{0}, {1, 2}}});
    worker.say(StageInputs{{worker.start(Driver::key(1), tokens(4))}});
    ASSERT_EQ(worker.stuck().size(), 1U);
    EXPECT_EQ(worker.stuck()[0].reason, "the layers read keys and values that are not here");
}

TEST(SharedKvDemand, CountsLayersThatHavePages) {
    CoordinatorConfig config;
    config.n_layers = 6;
    config.block_size = kBlock;
    config.shared_kv_layers = 2;
    const KvDemand demand(config);
    const BlockDemand ten(10, false);
    EXPECT_EQ(demand.pages(ten, {0, 6}), 40);
    EXPECT_EQ(demand.pages(ten, {0, 3}), 30);
    EXPECT_EQ(demand.pages(ten, {3, 6}), 10);
    EXPECT_EQ(demand.kv_layers({3, 6}), 1);
    EXPECT_EQ(demand.mean_blocks(ten), 10);
    // Layers with a window keep three blocks at most; one of those without pages has it, too.
    config.window = {5, false, {true, false, true, false, true, false}};
    const std::int64_t most = config.window.most_blocks(40, 1, kBlock);
    EXPECT_EQ(demand.pages(ten, {0, 6}), 2 * 10 + 2 * most);
    EXPECT_EQ(demand.pages(ten, {3, 6}), 10);
}

}  // namespace
}  // namespace helix::core::shared_kv_test
