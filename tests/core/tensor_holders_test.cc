#include "core/weights/tensor_holders.h"

#include <gtest/gtest.h>

#include <array>

namespace helix::core::tensor_holders_test {
namespace {

using Answer = TensorHolders::Answer;
using Source = TensorHolders::Source;
using Told = TensorHolders::Told;

constexpr Answer kCoordinator{Source::coordinator, {}};
constexpr Answer kWait{Source::wait, {}};
constexpr Answer from(std::uint32_t peer) {
    return {Source::peer, WorkerId{peer}};
}
constexpr WorkerId a{1}, b{2}, c{3}, d{4};

class Holders : public testing::Test {
  protected:
    void ready(WorkerId worker, std::int32_t tensor, bool shared = true) {
        holders_.on_ready(worker, std::array{tensor}, shared);
    }
    // Workers that keep what they get, and have nothing yet.
    void join(std::initializer_list<WorkerId> workers) {
        for (const WorkerId worker : workers) holders_.on_ready(worker, {}, true);
    }
    void later(double ms) { now_ = now_ + base::from_ms(ms); }

    TensorHolders holders_;
    TimePoint now_ = TimePoint{} + base::from_ms(1000);
};

TEST_F(Holders, WhatNobodyHasComesFromTheCoordinator) {
    join({a, b});
    EXPECT_EQ(holders_.ask(now_, a, 7), kCoordinator);
    EXPECT_EQ(holders_.ask(now_, b, 8), kCoordinator) << "another tensor";
    EXPECT_TRUE(holders_.settle(now_).empty());
}

TEST_F(Holders, OfReplicasThatStartColdOneIsSentTheTensorAndTheOthersHaveItFromThere) {
    join({a, b, c, d});
    EXPECT_EQ(holders_.ask(now_, b, 0), kCoordinator);
    EXPECT_EQ(holders_.ask(now_, a, 0), kWait);
    EXPECT_EQ(holders_.ask(now_, c, 0), kWait);
    EXPECT_EQ(holders_.ask(now_, d, 0), kWait);
    EXPECT_EQ(holders_.ask_more(now_, a, 0), Source::wait);
    EXPECT_EQ(holders_.ask_more(now_, b, 0), Source::coordinator);
    EXPECT_EQ(holders_.ask_more(now_, b, 1), std::nullopt);
    EXPECT_TRUE(holders_.settle(now_).empty());
    ready(b, 0);
    // b gives to two at a time.
    EXPECT_EQ(holders_.settle(now_), (std::vector<Told>{{a, 0, from(2)}, {c, 0, from(2)}}));
    EXPECT_EQ(holders_.ask_more(now_, a, 0), Source::peer);
    ready(a, 0);
    EXPECT_EQ(holders_.settle(now_), (std::vector<Told>{{d, 0, from(1)}}))
        << "a has it, too, and gives to nobody";
}

TEST_F(Holders, TheHolderWithTheFewestTransfersIsChosenThenTheLowestNumber) {
    ready(a, 5);
    ready(b, 5);
    join({c, d});
    EXPECT_EQ(holders_.ask(now_, c, 5), from(1));
    EXPECT_EQ(holders_.ask(now_, d, 5), from(2));
    ready(c, 5);
    EXPECT_EQ(holders_.ask(now_, WorkerId{5}, 5), from(1));
    later(TensorHolders::kOverAfter.seconds() * 1e3);
    EXPECT_EQ(holders_.ask(now_, WorkerId{6}, 5), from(1)) << "what nobody speaks of is over";
}

TEST_F(Holders, AWorkerThatKeepsNothingIsNotWaitedFor) {
    holders_.on_ready(a, {}, false);
    join({b});
    EXPECT_EQ(holders_.ask(now_, a, 0), kCoordinator);
    EXPECT_EQ(holders_.ask(now_, b, 0), kCoordinator);
    EXPECT_EQ(holders_.ask(now_, WorkerId{9}, 1), kCoordinator) << "of it nothing was heard";
    EXPECT_EQ(holders_.ask(now_, b, 1), kCoordinator);
}

TEST_F(Holders, AWorkerWhoseDiskIsFullIsNotWaitedForAnyMore) {
    join({a, b});
    EXPECT_EQ(holders_.ask(now_, a, 0), kCoordinator);
    EXPECT_EQ(holders_.ask(now_, b, 0), kWait);
    ready(a, 0, false);
    EXPECT_EQ(holders_.settle(now_), (std::vector<Told>{{b, 0, kCoordinator}}));
    EXPECT_EQ(holders_.ask(now_, a, 1), kCoordinator);
    ready(b, 0);
    EXPECT_EQ(holders_.ask(now_, b, 1), kCoordinator);
    ready(a, 1, false);
    EXPECT_EQ(holders_.ask(now_, a, 0), from(2));
}

TEST_F(Holders, AWorkerWhoseDiskIsFullStillGivesWhatItHasKept) {
    ready(a, 0);
    ready(a, 1, false);
    EXPECT_EQ(holders_.ask(now_, b, 0), from(1));
    EXPECT_EQ(holders_.ask(now_, b, 1), kCoordinator);
}

TEST_F(Holders, WhoWaitsForALostWorkerIsServed) {
    join({a, b, c});
    EXPECT_EQ(holders_.ask(now_, a, 0), kCoordinator);
    EXPECT_EQ(holders_.ask(now_, b, 0), kWait);
    EXPECT_EQ(holders_.ask(now_, c, 0), kWait);
    holders_.on_lost(a);
    EXPECT_EQ(holders_.settle(now_), (std::vector<Told>{{b, 0, kCoordinator}})) << "c waits for b";
}

TEST_F(Holders, AWorkerThatIsStuckIsNotWaitedFor) {
    const std::array links = {spec::LinkSpec{spec::kCoordinator, 1, 1e6, 0},
                              spec::LinkSpec{spec::kCoordinator, 2, 1e6, 0}};
    holders_.on_links(links);
    join({a, b});
    EXPECT_EQ(holders_.ask(now_, a, 0), kCoordinator);
    EXPECT_EQ(holders_.ask(now_, b, 0), kWait);
    later(10'000);
    EXPECT_EQ(holders_.ask_more(now_, a, 0), Source::coordinator);
    later(10'000);
    EXPECT_TRUE(holders_.settle(now_).empty()) << "it went on";
    later(5'000);
    EXPECT_EQ(holders_.settle(now_), (std::vector<Told>{{b, 0, kCoordinator}}));
}

TEST_F(Holders, AWorkerWhoseLinkIsNotMeasuredIsWaitedForOnlyAMoment) {
    join({a, b});
    EXPECT_EQ(holders_.ask(now_, a, 0), kCoordinator);
    EXPECT_EQ(holders_.ask(now_, b, 0), kWait);
    later(1'900);
    EXPECT_EQ(holders_.ask_more(now_, a, 0), Source::coordinator);
    EXPECT_TRUE(holders_.settle(now_).empty());
    later(200);
    EXPECT_EQ(holders_.settle(now_), (std::vector<Told>{{b, 0, kCoordinator}}));
}

TEST_F(Holders, AHolderThatFailedAWorkerIsNotNamedToItAgain) {
    ready(a, 0);
    ready(a, 1);
    join({b, c});
    EXPECT_EQ(holders_.ask(now_, b, 0), from(1));
    EXPECT_EQ(holders_.ask(now_, b, 0, a), kCoordinator);
    ready(b, 0);
    EXPECT_EQ(holders_.ask(now_, b, 1), kCoordinator);
    EXPECT_EQ(holders_.ask(now_, c, 0), from(2)) << "a is not thought to have it any more";
    ready(c, 0);
    EXPECT_EQ(holders_.ask(now_, c, 1), from(1)) << "c has no quarrel with it";
    holders_.on_lost(a);
    ready(a, 2);
    EXPECT_EQ(holders_.ask(now_, b, 2), from(1)) << "it has joined anew";
}

TEST_F(Holders, NobodyWaitsForAWorkerThatIsReachedMuchMoreSlowly) {
    constexpr double kSlow = 1e6;
    const std::array links = {spec::LinkSpec{spec::kCoordinator, 1, kSlow, 0},
                              spec::LinkSpec{spec::kCoordinator, 2, 100e6, 0},
                              spec::LinkSpec{spec::kCoordinator, 3, 2 * kSlow, 0}};
    holders_.on_links(links);
    join({a, b, c});
    EXPECT_EQ(holders_.ask(now_, a, 0), kCoordinator);
    EXPECT_EQ(holders_.ask(now_, b, 0), kCoordinator);
    ready(b, 0);
    EXPECT_EQ(holders_.ask(now_, c, 1), kCoordinator);
    EXPECT_EQ(holders_.ask(now_, a, 1), kWait) << "c is about as slow as a";
}

TEST_F(Holders, AWorkerIsNotSentOverALinkMuchSlowerThanTheCoordinators) {
    const std::array links = {
        spec::LinkSpec{spec::kCoordinator, 2, 100e6, 0}, spec::LinkSpec{1, 2, 1e6, 0},
        spec::LinkSpec{spec::kCoordinator, 3, 10e9, 0}, spec::LinkSpec{1, 3, 20e6, 0}};
    holders_.on_links(links);
    ready(a, 0);
    EXPECT_EQ(holders_.ask(now_, b, 0), kCoordinator);
    EXPECT_EQ(holders_.ask(now_, c, 0), from(1)) << "fast enough";
}

}  // namespace
}  // namespace helix::core::tensor_holders_test
