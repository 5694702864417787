// The coordinator dies and another takes over while requests decode: what workers still hold whole
// goes on where it ran, without one token computed twice, and all else is computed anew with the
// same tokens.
//
// In the matrix each message that is sent after the death is lost, comes twice or comes late, and
// each worker is killed as it goes out. A failure names its case.

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/effort.h"
#include "base/random.h"
#include "plan/losses/takeover_bound.h"
#include "sim/client_gaps.h"
#include "sim/faults/faulty_cluster.h"
#include "sim/faults/toy_model.h"
#include "sim/flat_cost.h"

namespace helix::sim::takeover_test {
namespace {

constexpr std::int32_t kLayers = 4;
constexpr std::int32_t kVocab = 200;
constexpr std::int32_t kWorkers = 4;  // two chains of two
constexpr std::int32_t kRequests = 6;
constexpr spec::LayerRange kHeld[kWorkers] = {{0, 2}, {2, 4}, {0, 2}, {2, 4}};
constexpr double kDownSeconds = 0.5;

core::CoordinatorEvent plan(const core::PlanCluster& question) {
    core::Planned planned;
    planned.plan = question.plan;
    bool first = false;
    bool second = false;
    for (const core::WorkerId id : question.workers) {
        planned.placement.layers.push_back(kHeld[id.value]);
        (kHeld[id.value].begin == 0 ? first : second) = true;
    }
    if (!first || !second) return core::NotPlanned{question.plan, "a layer has no holder"};
    const auto n = static_cast<std::int32_t>(question.workers.size());
    for (std::int32_t i = 0; i < n; ++i) {
        const bool begins = planned.placement.layers[static_cast<std::size_t>(i)].begin == 0;
        planned.flows.push_back(begins ? spec::LinkFlow{spec::kCoordinator, i, 10}
                                       : spec::LinkFlow{i, spec::kCoordinator, 10});
        for (std::int32_t j = 0; j < n; ++j) {
            const auto& to = planned.placement.layers[static_cast<std::size_t>(j)];
            if (begins && to.begin == 2) planned.flows.push_back({i, j, 5});
        }
    }
    return planned;
}

FaultyClusterConfig config() {
    FaultyClusterConfig config;
    core::CoordinatorConfig& c = config.coordinator;
    c.n_layers = config.worker.n_layers = kLayers;
    c.block_size = config.worker.block_size = 4;
    c.context_length = 256;
    c.vocab_size = config.vocab = kVocab;
    c.settle = base::from_ms(50);
    c.lost_rows_timeout = base::from_seconds(1);
    c.assign_repeat = base::from_seconds(1);
    c.claim_wait = base::from_seconds(2);
    config.worker.report_interval = base::from_ms(200);
    config.worker.coordinator_wait = base::from_seconds(20);
    config.link_latency_s = 0.002;
    config.load_s = 0.1;
    config.fault_seed = 1;
    config.gateways = 1;
    return config;
}

core::Request request_of(std::int32_t i) {
    core::Request request;
    for (core::Token token = 3; token < 17; ++token)
        request.prompt.push_back((token * 7 + i) % kVocab);
    request.max_tokens = 200;
    request.sampling.seed = static_cast<std::uint64_t>(11 + i);
    if (i % 3 == 1) request.n = 3;
    return request;
}

// The numbers are those of the messages since the death.
struct Case {
    std::int64_t lost = 0;
    std::int64_t twice = 0;
    std::int64_t late = 0;
    std::int64_t kill_at = 0;
    std::int32_t killed = 0;

    std::string text() const {
        std::string text;
        if (lost > 0) text += "message " + std::to_string(lost) + " lost ";
        if (twice > 0) text += "message " + std::to_string(twice) + " twice ";
        if (late > 0) text += "message " + std::to_string(late) + " late ";
        if (kill_at > 0)
            text += "w" + std::to_string(killed) + " killed at message " + std::to_string(kill_at);
        return text;
    }
};

struct Result {
    std::string broken;
    FaultCounts counts;
    std::int64_t letters = 0;  // until all were handed over, and a little after
    double longest_s = 0;      // between two tokens of a request, as its client saw them
};

Fault fault_of(FaultKind kind, std::int32_t a, double amount, double seconds) {
    Fault fault;
    fault.kind = kind;
    fault.a = a;
    fault.amount = amount;
    fault.for_us = static_cast<std::int64_t>(seconds * 1e6);
    return fault;
}

// The old one is back so long after the next is there.
Fault replacement(double old_back_after_s) {
    Fault fault = fault_of(FaultKind::replace_coordinator, spec::kCoordinator, 0.1, kDownSeconds);
    fault.back_us = static_cast<std::int64_t>(old_back_after_s * 1e6);
    return fault;
}

Result take_over(const FaultyClusterConfig& given, const Case& which,
                 std::vector<Fault> beside = {}, std::optional<Fault> first = {}) {
    constexpr std::int64_t kAfter = 100;
    Result result;
    FaultyClusterConfig how = given;
    how.on_broken = [&](const std::string& what) { result.broken = what; };
    const FlatCost cost(0.001, 0.1, 0.1);
    FaultyCluster world(how, plan, cost);
    ClientGaps gaps;
    world.set_watch(&gaps);
    spec::NodeSpec node;
    for (int i = 0; i < kWorkers; ++i) {
        node.name = "w" + std::to_string(i);
        world.add_worker(node, 2000);
    }
    world.run_for(1);
    std::map<core::RequestId, core::Request> asked;
    for (std::int32_t i = 0; i < kRequests; ++i) {
        asked.emplace(world.submit(request_of(i)), request_of(i));
    }
    world.run_for(0.3);
    std::int64_t last = 0;
    world.set_postman([&](const Letter& letter) {
        const bool over = world.counts().handed_over == kRequests;
        if (!over || letter.number < last + kAfter) result.letters = letter.number;
        if (!over) last = letter.number;
        if (letter.number == which.kill_at) {
            world.run_faults({fault_of(FaultKind::kill, which.killed, 0.03, 1)});
        }
        Fate fate;
        fate.lost = letter.number == which.lost;
        fate.twice = letter.number == which.twice;
        if (letter.number == which.late) fate.late_s = 0.7;
        return fate;
    });
    beside.insert(beside.begin(), first.value_or(fault_of(FaultKind::kill_coordinator,
                                                          spec::kCoordinator, 0.1, kDownSeconds)));
    world.run_faults(beside);
    if (!world.run_until_idle(120) && result.broken.empty()) result.broken = "not all ended";
    world.calm();
    world.run_for(5);
    if (result.broken.empty()) result.broken = world.leak();
    for (const auto& [id, request] : asked) {
        const Outcome& outcome = world.outcomes().at(id);
        for (std::int32_t choice = 0; choice < request.n; ++choice) {
            const auto seed =
                spec::member_seed(request.sampling.seed, static_cast<std::uint32_t>(choice));
            const auto right =
                toy_generate(request.prompt, request.max_tokens, kLayers, seed, kVocab);
            const bool same = outcome.choices.at(choice) == right;
            if (result.broken.empty() && !same) result.broken = "wrong tokens";
        }
    }
    result.counts = world.counts();
    result.longest_s = gaps.longest_s;
    return result;
}

TEST(Takeover, EveryRequestGoesOnWhereItRanAndNothingIsComputedTwice) {
    const Result result = take_over(config(), {});
    EXPECT_EQ(result.broken, "");
    EXPECT_EQ(result.counts.handed_over, kRequests);
    EXPECT_EQ(result.counts.adopted, kRequests);
    EXPECT_EQ(result.counts.recomputed_tokens, 0);
    EXPECT_EQ(result.counts.cut_off, 0);
}

TEST(Takeover, WorkersThatKeepNothingComputeAnew) {
    FaultyClusterConfig forgetful = config();
    forgetful.worker.coordinator_wait = {};
    const Result result = take_over(forgetful, {});
    EXPECT_EQ(result.broken, "");
    EXPECT_EQ(result.counts.adopted, 0);
    EXPECT_GT(result.counts.recomputed_tokens, 0);
}

TEST(Takeover, WhatAWorkerHeldThatDiesWithTheCoordinatorIsComputedAnew) {
    const Result result = take_over(config(), {}, {fault_of(FaultKind::kill, 1, 0.05, 0.2)});
    EXPECT_EQ(result.broken, "");
    EXPECT_LT(result.counts.adopted, kRequests);
    EXPECT_GT(result.counts.recomputed_tokens, 0);
}

TEST(Takeover, ACoordinatorThatDiesWhileItTakesOverIsFollowedByAnother) {
    Fault second = fault_of(FaultKind::kill_coordinator, spec::kCoordinator, 0.1, kDownSeconds);
    for (const std::int64_t at_us : {550'000, 700'000, 900'000, 1'200'000}) {
        second.at_us = at_us;
        const Result result = take_over(config(), {}, {second});
        EXPECT_EQ(result.broken, "") << at_us;
        EXPECT_EQ(result.counts.recomputed_tokens, 0) << at_us;
    }
}

// The planner's bound (plan/losses/takeover_bound.h), whatever takes longest: that all know of the
// death, or that the next coordinator is there.
TEST(Takeover, AnswersStandStillNoLongerThanIsSaid) {
    double longest_s = 0;
    double closest = 0;
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        base::Random random(seed);
        FaultyClusterConfig how = config();
        how.fault_seed = seed;
        how.gateways = static_cast<std::int32_t>(random.between(1, 3));
        plan::TakeoverRule rule;
        rule.detection_s = 2.5 * random.uniform();
        rule.restart_s = 0.1 + 2.5 * random.uniform();
        rule.start_s = 0;    // it listens as soon as it is there
        rule.pause_s = 0.5;  // of simulated workers and gateways that look for a coordinator
        rule.settle_s = how.coordinator.settle.seconds() + 0.1;  // a tick of the cluster
        const Fault death = fault_of(FaultKind::kill_coordinator, spec::kCoordinator,
                                     rule.detection_s, rule.restart_s);
        const Result result = take_over(how, {}, {}, death);
        EXPECT_EQ(result.broken, "") << "seed " << seed;
        EXPECT_EQ(result.counts.adopted, kRequests) << "seed " << seed;
        EXPECT_LE(result.longest_s, takeover_bound_s(rule)) << "seed " << seed;
        longest_s = std::max(longest_s, result.longest_s);
        closest = std::max(closest, result.longest_s / takeover_bound_s(rule));
    }
    std::printf("longest pause %.2f s, at most %.0f %% of its bound\n", longest_s, closest * 100);
    EXPECT_GT(closest, 0.6) << "the bound says little";
}

// ---- gateways
// -------------------------------------------------------------------------------------

TEST(Takeover, ClientsOfAGatewayThatDiesAskAgainAndGetTheSameAnswer) {
    FaultyClusterConfig two = config();
    two.gateways = 2;
    for (const double told_after_s : {0.0, 0.1, 3.0}) {
        const Fault death = fault_of(FaultKind::kill_gateway, 0, told_after_s, kDownSeconds);
        const Result result = take_over(two, {}, {}, death);
        EXPECT_EQ(result.broken, "") << told_after_s;
        EXPECT_EQ(result.counts.gateway_kills, 1);
        EXPECT_GT(result.counts.asked_again, 0);
        EXPECT_LT(result.counts.asked_again, kRequests) << "some are at the other one";
        EXPECT_EQ(result.counts.handed_over, 0);
    }
}

TEST(Takeover, TheOnlyGatewayDiesAndItsClientsWaitUntilItIsBack) {
    const Fault death = fault_of(FaultKind::kill_gateway, 0, 0.1, 2);
    const Result result = take_over(config(), {}, {}, death);
    EXPECT_EQ(result.broken, "");
    EXPECT_EQ(result.counts.asked_again, kRequests);
}

TEST(Takeover, AGatewayWhoseConnectionBreaksHandsItsRequestsToTheSameCoordinatorAgain) {
    for (const double noticed_s : {0.0, 0.1, 2.0}) {
        const Fault cut = fault_of(FaultKind::cut_gateway, 0, noticed_s, 0.05);
        const Result result = take_over(config(), {}, {}, cut);
        EXPECT_EQ(result.broken, "") << noticed_s;
        EXPECT_EQ(result.counts.handed_over_again, kRequests) << noticed_s;
        EXPECT_EQ(result.counts.asked_again, 0);
    }
}

TEST(Takeover, AGatewayThatStandsStillIsGivenUpAndGoesOn) {
    FaultyClusterConfig strict = config();
    strict.silent_limit_s = 0.5;
    for (const double still_s : {0.2, 2.0}) {
        const Fault pause = fault_of(FaultKind::pause_gateway, 0, 0, still_s);
        const Result result = take_over(strict, {}, {}, pause);
        EXPECT_EQ(result.broken, "") << still_s;
        EXPECT_EQ(result.counts.handed_over_again, still_s > 0.5 ? kRequests : 0) << still_s;
    }
}

TEST(Takeover, CoordinatorAndGatewayDieAtOnce) {
    FaultyClusterConfig two = config();
    two.gateways = 2;
    Fault death = fault_of(FaultKind::kill_gateway, 0, 0.1, kDownSeconds);
    for (const std::int64_t at_us : {0, 100'000, 520'000, 900'000}) {
        death.at_us = at_us;
        const Result result = take_over(two, {}, {death});
        EXPECT_EQ(result.broken, "") << at_us;
        EXPECT_GT(result.counts.asked_again, 0) << at_us;
        EXPECT_GT(result.counts.adopted, 0) << at_us << ": those of the other gateway";
    }
}

// It stood still when the next one took over, and speaks on: to workers that have left it, and to
// clients, who hear nothing twice and nothing wrong.
TEST(Takeover, ACoordinatorThatWasReplacedAndComesBackLeadsNobody) {
    for (const double back_after_s : {0.0, 0.02, 0.3, 2.0}) {
        const Result result = take_over(config(), {}, {}, replacement(back_after_s));
        EXPECT_EQ(result.broken, "") << back_after_s;
        EXPECT_EQ(result.counts.coordinators_replaced, 1) << back_after_s;
        EXPECT_EQ(result.counts.adopted, kRequests) << back_after_s;
        EXPECT_EQ(result.counts.recomputed_tokens, 0) << back_after_s;
        EXPECT_GT(result.counts.former_orders, 0) << back_after_s;
    }
}

TEST(Takeover, AWorkerThatLooksForACoordinatorTellsTheOldOneOfTheLaterOne) {
    std::vector<Fault> again;
    for (std::int32_t worker = 0; worker < kWorkers; ++worker) {
        again.push_back(fault_of(FaultKind::declare_lost, worker, 0, 0));
        again.back().at_us = 1'500'000;
    }
    const Result result = take_over(config(), {}, again, replacement(0.1));
    EXPECT_EQ(result.broken, "");
    EXPECT_EQ(result.counts.formers_stopped, 1);
}

TEST(Takeover, WithTheOldOneBackWhateverMessageIsLostDoubledOrLateTheTokensAreTheSame) {
    const Fault replaced = replacement(0.02);
    const std::int64_t letters = take_over(config(), {}, {}, replaced).letters;
    EXPECT_GT(letters, 100);
    const auto stride = static_cast<std::int64_t>(kSweepStride) * (whole_sweeps() ? 1 : 11);
    for (std::int64_t at = 1; at <= letters; at += stride) {
        for (const Case& which : {Case{.lost = at}, Case{.twice = at}, Case{.late = at},
                                  Case{.kill_at = at, .killed = 1}}) {
            ASSERT_EQ(take_over(config(), which, {}, replaced).broken, "") << which.text();
        }
    }
}

TEST(Takeover, WhateverMessageIsLostDoubledOrLateTheTokensAreTheSame) {
    const std::int64_t letters = take_over(config(), {}).letters;
    EXPECT_GT(letters, 100);
    const auto stride = static_cast<std::int64_t>(kSweepStride) * (whole_sweeps() ? 1 : 7);
    for (std::int64_t at = 1; at <= letters; at += stride) {
        for (const Case& which : {Case{.lost = at}, Case{.twice = at}, Case{.late = at}}) {
            ASSERT_EQ(take_over(config(), which).broken, "") << which.text();
        }
    }
}

TEST(Takeover, WhicheverWorkerDiesWheneverTheTokensAreTheSame) {
    const std::int64_t letters = take_over(config(), {}).letters;
    const auto stride = static_cast<std::int64_t>(kSweepStride) * (whole_sweeps() ? 1 : 17);
    for (std::int64_t at = 1; at <= letters; at += stride) {
        for (std::int32_t worker = 0; worker < kWorkers; ++worker) {
            const Case which{.kill_at = at, .killed = worker};
            ASSERT_EQ(take_over(config(), which).broken, "") << which.text();
        }
    }
}

}  // namespace
}  // namespace helix::sim::takeover_test
