#include "core/batch/round_trip.h"

#include <gtest/gtest.h>

#include "core/timed_cluster.h"

namespace helix::core::round_trip_test {
namespace {

TimePoint ms(double t) {
    return TimePoint{} + base::from_ms(t);
}

// One token left with batch 1 at 10 ms and came back after 1 ms.
RoundTrip of_one_ms() {
    RoundTrip trip;
    trip.leaves(1, ms(10));
    trip.comes_back(1, ms(10), ms(11));
    return trip;
}

TEST(RoundTrip, BeforeAnyHasComeBackNobodyWaits) {
    RoundTrip trip;
    trip.leaves(1, ms(10));
    EXPECT_FALSE(trip.worth_waiting(ms(10), 1));
}

TEST(RoundTrip, WaitsWhileOneOfTheNewestBatchIsAway) {
    RoundTrip trip = of_one_ms();
    EXPECT_FALSE(trip.worth_waiting(ms(11), 0.02)) << "nobody is away";
    trip.leaves(2, ms(20));
    trip.leaves(2, ms(20));
    EXPECT_EQ(trip.worth_waiting(ms(20), 0.02), ms(24)) << "four usual round trips";
    EXPECT_EQ(trip.worth_waiting(ms(20), 0.006), ms(23)) << "half of what it saves";
    trip.comes_back(2, ms(20), ms(21));
    EXPECT_TRUE(trip.worth_waiting(ms(21), 0.02));
    trip.ends(2);
    EXPECT_FALSE(trip.worth_waiting(ms(21), 0.02)) << "that request has ended";
}

TEST(RoundTrip, WhoStaysAwayIsNotWaitedForAgain) {
    RoundTrip trip = of_one_ms();
    trip.leaves(2, ms(20));
    EXPECT_FALSE(trip.worth_waiting(ms(24), 0.02)) << "it was long enough";
    trip.leaves(3, ms(30));
    trip.comes_back(3, ms(30), ms(31));
    EXPECT_FALSE(trip.worth_waiting(ms(31), 0.02)) << "one of batch 2 is still away";
    trip.comes_back(2, ms(20), ms(32));
    EXPECT_FALSE(trip.worth_waiting(ms(32), 0.02));
}

TEST(RoundTrip, FarAwayIsNotWorthWaitingFor) {
    RoundTrip trip = of_one_ms();
    trip.leaves(2, ms(20));
    EXPECT_FALSE(trip.worth_waiting(ms(20), 0.0019));
    EXPECT_TRUE(trip.worth_waiting(ms(20), 0.0021));
}

// ---- a worker that runs the whole model, in virtual time
// ------------------------------------------

TimedCluster::Setup one_lane(double hop_ms) {
    TimedCluster::Setup setup;
    setup.coordinator.n_layers = 2;
    setup.coordinator.context_length = 4096;
    setup.worker.n_layers = 2;
    setup.batch = base::from_ms(10);
    setup.row = base::from_ms(0.5);
    setup.hop = base::from_ms(hop_ms);
    return setup;
}

// The mean time between the last tokens of eight requests that began one after the other.
double tpot_ms(double hop_ms) {
    TimedCluster cluster(one_lane(hop_ms));
    constexpr int kRequests = 8;
    for (std::uint64_t i = 1; i <= kRequests; ++i) {
        Request request;
        request.id = RequestId{i};
        request.prompt.assign(8, 5);
        request.max_tokens = 400;
        cluster.submit_at(cluster.now + base::from_ms(7.0 * static_cast<double>(i)), request);
    }
    cluster.run(base::from_seconds(60));
    double sum = 0;
    constexpr std::size_t kLast = 200;
    for (const auto& [id, seen] : cluster.seen) {
        EXPECT_EQ(seen.tokens.size(), 400U);
        if (seen.tokens.size() != 400U) return 0;
        const Duration last = seen.tokens[350] - seen.tokens[350 - kLast];
        sum += last.seconds() * 1e3 / kLast;
    }
    return sum / kRequests;
}

TEST(RoundTrip, RequestsOfAWorkerWithTheWholeModelRunTogether) {
    EXPECT_NEAR(tpot_ms(0.2), 10 + 8 * 0.5 + 2 * 0.2, 0.3) << "one batch for all";
}

// With twice 40 ms there are two groups or more, of which one computes while the others travel.
TEST(RoundTrip, WhereTheCoordinatorIsFarTheyTakeTurns) {
    const double together = 10 + 8 * 0.5 + 2 * 40;
    EXPECT_LE(tpot_ms(40), together + 10);
}

}  // namespace
}  // namespace helix::core::round_trip_test
