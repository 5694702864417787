// Llumnix's claims, on coordinator and workers as they ship, in virtual time.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/effort.h"
#include "base/random.h"
#include "core/timed_cluster.h"

namespace helix::core::balance_experiment_test {
namespace {

TimedCluster::Setup setup(std::uint32_t lanes) {
    TimedCluster::Setup made;
    made.lanes = lanes;
    made.coordinator.n_layers = 1;
    made.coordinator.context_length = 4096;
    made.coordinator.expected_output_tokens = 60;
    made.worker.n_layers = 1;
    return made;
}

Request request(std::uint64_t id, std::int32_t prompt, std::int32_t output,
                std::int32_t priority = 0) {
    Request made;
    made.id = {id};
    made.prompt.assign(static_cast<std::size_t>(prompt), 3);
    made.max_tokens = output;
    made.min_tokens = output;
    made.priority = priority;
    return made;
}

double quantile(std::vector<double> values, double q) {
    EXPECT_FALSE(values.empty());
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

std::vector<double> gaps_ms(const TimedCluster::Seen& seen) {
    std::vector<double> gaps;
    for (std::size_t i = 1; i < seen.tokens.size(); ++i) {
        gaps.push_back((seen.tokens[i] - seen.tokens[i - 1]).ms());
    }
    return gaps;
}

struct Latency {
    double gap_p99_ms = 0;
    double first_p99_ms = 0;
};

// This many others decode all the time, and one request of high priority comes every second.
Latency urgent_beside(std::uint64_t others, std::int32_t priority) {
    TimedCluster::Setup made = setup(1);
    made.worker.max_batch_seqs = 8;
    made.pages = 4000;
    TimedCluster cluster(made);
    const TimePoint begin = cluster.now;
    for (std::uint64_t i = 1; i <= others; ++i) {
        cluster.submit_at(begin, request(i, 32, 2000));
    }
    for (std::uint64_t i = 0; i < 20; ++i) {
        const TimePoint when = begin + base::from_seconds(2 + static_cast<double>(i));
        cluster.submit_at(when, request(1000 + i, 32, 30, priority));
    }
    cluster.run(base::from_seconds(60));
    std::vector<double> gaps;
    std::vector<double> first;
    for (const auto& [id, seen] : cluster.seen) {
        if (id < 1000) continue;
        EXPECT_TRUE(seen.finished) << id;
        first.push_back((seen.tokens.front() - seen.arrived).ms());
        for (const double gap : gaps_ms(seen)) gaps.push_back(gap);
    }
    return {quantile(gaps, 0.99), quantile(first, 0.99)};
}

TEST(Priority, LatencyStaysWhenTheBackgroundDoubles) {
    if (kSanitized) GTEST_SKIP() << "times are compared without a sanitizer";
    const Latency one = urgent_beside(16, 1);
    const Latency two = urgent_beside(32, 1);
    EXPECT_LT(two.gap_p99_ms, 1.15 * one.gap_p99_ms);
    EXPECT_LT(two.first_p99_ms, 1.5 * one.first_p99_ms);
    // Without priority it would not be as fast.
    const Latency plain_one = urgent_beside(16, 0);
    const Latency plain_two = urgent_beside(32, 0);
    EXPECT_GT(plain_two.gap_p99_ms, 1.5 * plain_one.gap_p99_ms);
    std::printf("p99 between tokens: %.1f and %.1f ms, without priority %.1f and %.1f ms\n",
                one.gap_p99_ms, two.gap_p99_ms, plain_one.gap_p99_ms, plain_two.gap_p99_ms);
}

struct Outcome {
    double first_p99_s = 0;
    double lost_s = 0;  // to preemption and waiting: gaps of more than a second
    std::int64_t preemptions = 0;
    std::int64_t moves = 0;
    std::size_t unfinished = 0;
};

// Bursts of requests of unequal length over four workers whose memory is short.
Outcome bursts(bool balanced, const RouterKind& router, std::uint64_t seed,
               bool as_published = false) {
    TimedCluster::Setup made = setup(4);
    made.coordinator.balance.enabled = balanced;
    if (as_published) {
        balance_as_llumnix(made.coordinator);
        made.worker.prompts_first = PromptsFirst{};
    }
    made.coordinator.router = router.make;
    made.pages = 120;  // 1920 tokens
    TimedCluster cluster(made);
    base::Random random(seed);
    const TimePoint begin = cluster.now;
    std::uint64_t id = 0;
    for (int burst = 0; burst < 12; ++burst) {
        const std::int64_t count = random.between(10, 26);
        for (std::int64_t i = 0; i < count; ++i) {
            const bool long_one = random.chance(0.15);
            const std::int64_t prompt =
                long_one ? random.between(500, 900) : random.between(20, 150);
            const std::int64_t output =
                random.chance(0.25) ? random.between(250, 600) : random.between(10, 80);
            cluster.submit_at(begin + base::from_seconds(4.0 * burst + 2 * random.uniform()),
                              request(++id, static_cast<std::int32_t>(prompt),
                                      static_cast<std::int32_t>(output)));
        }
    }
    cluster.run(base::from_seconds(240));
    Outcome outcome;
    std::vector<double> first;
    for (const auto& [number, seen] : cluster.seen) {
        outcome.unfinished += seen.finished ? 0 : 1;
        if (seen.tokens.empty()) continue;
        first.push_back((seen.tokens.front() - seen.arrived).seconds());
        for (const double gap : gaps_ms(seen)) outcome.lost_s += gap > 1000 ? gap / 1000 : 0;
    }
    outcome.first_p99_s = quantile(first, 0.99);
    outcome.preemptions = cluster.preemptions();
    outcome.moves = cluster.committed();
    return outcome;
}

TEST(Balance, BurstsLoseLessTimeWithIt) {
    if (kSanitized) GTEST_SKIP() << "times are compared without a sanitizer";
    double first[2] = {0, 0};
    double lost[2] = {0, 0};
    std::int64_t moves = 0;
    const std::uint64_t seeds = std::max(2U, sweep(16U));
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        for (const bool balanced : {false, true}) {
            const Outcome outcome = bursts(balanced, max_flow_router(), seed);
            EXPECT_EQ(outcome.unfinished, 0U) << seed;
            first[balanced ? 1 : 0] += outcome.first_p99_s / static_cast<double>(seeds);
            lost[balanced ? 1 : 0] += outcome.lost_s;
            moves += outcome.moves;
        }
    }
    std::printf(
        "p99 to the first token %.2f s, with balance %.2f s; lost %.1f and %.1f s; "
        "%lld moves\n",
        first[0], first[1], lost[0], lost[1], static_cast<long long>(moves));
    EXPECT_GT(moves, 0);
    if (whole_sweeps()) {  // few seeds differ by more
        EXPECT_LT(first[1], 1.15 * first[0]);
    }
    EXPECT_LT(lost[1], 0.5 * lost[0]);
}

// Llumnix and vLLM as published: requests move, and everything ends.
TEST(Balance, AsPublishedEverythingEnds) {
    Outcome sum;
    for (std::uint64_t seed = 1; seed <= (kSanitized ? 1 : 4); ++seed) {
        const Outcome outcome = bursts(true, llumnix_router(), seed, true);
        EXPECT_EQ(outcome.unfinished, 0U) << seed;
        sum.moves += outcome.moves;
    }
    EXPECT_GT(sum.moves, 0);
}

TEST(Balance, RoutersOnBursts) {
    if (kSanitized) GTEST_SKIP() << "times are compared without a sanitizer";
    for (const RouterKind& kind : {max_flow_router(), freest_router(), shortest_queue_router()}) {
        Outcome sum;
        for (std::uint64_t seed = 1; seed <= 2; ++seed) {
            const Outcome outcome = bursts(true, kind, seed);
            EXPECT_EQ(outcome.unfinished, 0U) << kind.name << seed;
            sum.first_p99_s += outcome.first_p99_s / 2;
            sum.lost_s += outcome.lost_s;
            sum.preemptions += outcome.preemptions;
        }
        std::printf("%s: p99 to the first token %.2f s, lost %.1f s, %lld preemptions\n",
                    kind.name.c_str(), sum.first_p99_s, sum.lost_s,
                    static_cast<long long>(sum.preemptions));
    }
}

}  // namespace
}  // namespace helix::core::balance_experiment_test
