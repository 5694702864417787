#include "engine/host/thread_pool.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace helix::engine::test::thread_pool_test {
namespace {

TEST(ThreadPool, RunsEveryTaskOnceAndReturnsAfterTheLast) {
    for (const int threads : {1, 2, 5}) {
        ThreadPool pool(threads);
        EXPECT_EQ(pool.size(), threads);
        for (std::int64_t count = 0; count < 300; count = count * 3 / 2 + 1) {
            std::vector<int> runs(static_cast<std::size_t>(count), 0);
            std::atomic<bool> bad_thread{false};
            pool.run(count, [&](std::int64_t i, int thread) {
                ++runs[static_cast<std::size_t>(i)];
                if (thread < 0 || thread >= threads) bad_thread = true;
            });
            EXPECT_EQ(std::vector<int>(runs.size(), 1), runs)
                << count << " tasks, " << threads << " threads";
            EXPECT_FALSE(bad_thread);
        }
    }
}

TEST(ThreadPool, ManyShortJobsInARowLoseNothing) {
    ThreadPool pool(3);
    std::int64_t sum = 0;
    std::vector<std::int64_t> cells(8);
    for (int job = 0; job < 3000; ++job) {
        pool.run(8, [&](std::int64_t i, int) { cells[static_cast<std::size_t>(i)] = i + job; });
        for (const std::int64_t cell : cells) sum += cell;
    }
    EXPECT_EQ(sum, 3000LL * 28 + 8LL * 3000 * 2999 / 2);
}

TEST(ThreadPool, PiecesOfARangeHoldEveryIndexOnceAndOnlyTheLastIsShorter) {
    for (const int threads : {1, 3}) {
        ThreadPool pool(threads);
        for (const std::int64_t most : {1, 4, 7}) {
            for (const std::int64_t count : {0, 1, 3, 4, 5, 28, 99}) {
                std::vector<int> runs(static_cast<std::size_t>(count), 0);
                std::atomic<std::int64_t> pieces{0};
                std::atomic<bool> bad_piece{false};
                pool.run_pieces(count, most, [&](std::int64_t begin, std::int64_t end) {
                    pieces.fetch_add(1);
                    if (begin % most != 0 || end != std::min(begin + most, count)) bad_piece = true;
                    for (std::int64_t i = begin; i < end; ++i) ++runs[static_cast<std::size_t>(i)];
                });
                EXPECT_EQ(runs, std::vector<int>(runs.size(), 1))
                    << count << " by " << most << ", " << threads << " threads";
                EXPECT_EQ(pieces.load(), (count + most - 1) / most);
                EXPECT_FALSE(bad_piece);
            }
        }
    }
}

// rank r has the threads t with t * ranks / threads == r.
TEST(ThreadPool, EveryRankRunsItsTasksOnceOnItsOwnThreads) {
    for (const auto& pair : {std::pair(1, 1), {2, 2}, {5, 2}, {5, 3}, {4, 4}}) {
        const int threads = pair.first;
        const int ranks = pair.second;
        ThreadPool pool(place_threads(threads, ranks, {}, {}));
        EXPECT_EQ(pool.size(), threads);
        EXPECT_EQ(pool.ranks(), ranks);
        for (std::int64_t count = 0; count < 100; count = count * 3 / 2 + 1) {
            std::vector<int> runs(static_cast<std::size_t>(count * ranks), 0);
            std::atomic<int> strangers{0};
            pool.run_ranks(count, [&](int rank, std::int64_t i, int thread) {
                ++runs[static_cast<std::size_t>(rank * count + i)];
                if (thread * ranks / threads != rank) strangers.fetch_add(1);
            });
            EXPECT_EQ(std::vector<int>(runs.size(), 1), runs)
                << count << " tasks, " << ranks << " ranks of " << threads << " threads";
            EXPECT_EQ(strangers.load(), 0);
        }
    }
}

TEST(ThreadPool, JobsOfRanksAndOfAllThreadsInTurnLoseNothing) {
    ThreadPool pool(place_threads(3, 3, {}, {}));
    std::int64_t sum = 0;
    std::vector<std::int64_t> cells(6);
    for (int job = 0; job < 300; ++job) {
        if (job % 3 == 0) {
            pool.run(6, [&](std::int64_t i, int) { cells[static_cast<std::size_t>(i)] = i; });
        } else {
            pool.run_ranks(2, [&](int rank, std::int64_t i, int) {
                cells[static_cast<std::size_t>(rank * 2 + i)] = rank * 2 + i;
            });
        }
        for (std::int64_t& cell : cells) sum += std::exchange(cell, -1);
    }
    EXPECT_EQ(sum, 300 * 15);
}

TEST(ThreadPool, WakesAfterItsThreadsWentToSleep) {
    ThreadPool pool(2);
    for (int round = 0; round < 3; ++round) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        std::atomic<int> ran{0};
        pool.run(100, [&](std::int64_t, int) { ran.fetch_add(1); });
        EXPECT_EQ(ran.load(), 100);
    }
}

TEST(ThreadPool, PinsToTheCoresItIsGiven) {
    std::thread([] {  // a thread of its own: the caller is pinned too
        ThreadPool pool(2, {0});
        std::atomic<int> ran{0};
        pool.run(10, [&](std::int64_t, int) { ran.fetch_add(1); });
        EXPECT_EQ(ran.load(), 10);
        cpu_set_t set;
        CPU_ZERO(&set);
        ASSERT_EQ(pthread_getaffinity_np(pthread_self(), sizeof set, &set), 0);
        EXPECT_EQ(CPU_COUNT(&set), 1);
        EXPECT_TRUE(CPU_ISSET(0, &set));
    })
        .join();
}

// What this thread makes of three products, as bits: a comparison would take a subnormal number for
// zero where they are zeros.
using SubnormalProducts = std::array<std::uint32_t, 3>;
SubnormalProducts subnormal_products() {
    volatile float tiny = 1e-30F;
    volatile float scale = 1e-15F;
    volatile float subnormal = std::bit_cast<float>(1U);
    volatile float huge = 0x1p100F;
    volatile float positive = tiny * scale;
    volatile float negative = tiny * -scale;
    volatile float read = subnormal * huge;
    const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
    return {bits(positive), bits(negative), bits(read)};
}
// Made, made with a sign, and read: 2^-149, -2^-149 and 2^-49, or zeros.
constexpr SubnormalProducts kKept = {1, 0x80000001U, (127U - 49U) << 23};
constexpr SubnormalProducts kFlushed = {0, 0x80000000U, 0};

TEST(ThreadPool, TasksComputeWithSubnormalsAsZerosAndTheCallerDoesNot) {
    ASSERT_EQ(subnormal_products(), kKept);
    for (const int threads : {1, 2, 3}) {
        ThreadPool pool(threads);
        for (const std::int64_t count : {1, 200}) {
            std::vector<SubnormalProducts> made(static_cast<std::size_t>(count));
            pool.run(count, [&](std::int64_t i, int) {
                made[static_cast<std::size_t>(i)] = subnormal_products();
            });
            EXPECT_EQ(made, std::vector<SubnormalProducts>(made.size(), kFlushed))
                << threads << " threads";
            EXPECT_EQ(subnormal_products(), kKept) << "after a job of " << threads << " threads";
        }
    }
}

// Only the threads of a rank do its tasks: with a thread for each rank all of them take part.
TEST(ThreadPool, TasksOfEveryRankComputeWithSubnormalsAsZeros) {
    ASSERT_EQ(subnormal_products(), kKept);
    for (const int threads : {1, 2, 3}) {
        ThreadPool pool(place_threads(threads, threads, {}, {}));
        for (int job = 0; job < 3; ++job) {
            std::vector<SubnormalProducts> made(static_cast<std::size_t>(4 * threads));
            pool.run_ranks(4, [&](int rank, std::int64_t i, int) {
                made[static_cast<std::size_t>(4 * rank + i)] = subnormal_products();
            });
            EXPECT_EQ(made, std::vector<SubnormalProducts>(made.size(), kFlushed))
                << threads << " ranks";
            EXPECT_EQ(subnormal_products(), kKept) << "after a job of " << threads << " ranks";
        }
    }
}

TEST(FlushedSubnormals, OneWithinAnotherRestoresTheModeOfTheOuterOne) {
    ASSERT_EQ(subnormal_products(), kKept);
    {
        const FlushedSubnormals outer;
        EXPECT_EQ(subnormal_products(), kFlushed);
        {
            const FlushedSubnormals inner;
            EXPECT_EQ(subnormal_products(), kFlushed);
        }
        EXPECT_EQ(subnormal_products(), kFlushed);
    }
    EXPECT_EQ(subnormal_products(), kKept);
}

// So do the threads of a device of software.
TEST(FlushedSubnormals, AThreadThatIsStartedMeanwhileInheritsThem) {
    SubnormalProducts made{};
    std::thread started;
    {
        const FlushedSubnormals flushed;
        started = std::thread([&] { made = subnormal_products(); });
    }
    started.join();
    EXPECT_EQ(made, kFlushed);
}

}  // namespace
}  // namespace helix::engine::test::thread_pool_test
