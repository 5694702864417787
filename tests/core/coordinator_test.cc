#include "core/coordinator/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "core/coordinator/coordinator_impl.h"
#include "core/find_action.h"
#include "core/invariants.h"
#include "core/protocol/describe.h"

namespace helix::core::coordinator_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A coordinator with one worker that holds the whole model, driven by hand.
class CoordinatorTest : public ::testing::Test {
  protected:
    CoordinatorTest() : coordinator_(config()) {
        WorkerJoined joined;
        joined.worker = {0};
        joined.incarnation = 1;
        joined.node.name = "solo";
        step(joined);
        now_ = now_ + base::from_seconds(1);
        const auto actions = step(CoordinatorTick{});
        const auto plan = find<PlanCluster>(actions);
        EXPECT_TRUE(plan);
        Planned planned;
        planned.plan = plan->plan;
        planned.placement.layers = {{0, 4}};
        planned.flows = {{spec::kCoordinator, 0, 5}, {0, spec::kCoordinator, 5}};
        step(planned);
        step(FromWorker{{0}, LayersReady{1, {0, 4}, 400}});
    }

    static CoordinatorConfig config() {
        CoordinatorConfig config;
        config.n_layers = 4;
        config.context_length = 128;
        config.block_size = 4;
        return config;
    }

    std::vector<CoordinatorAction> step(const CoordinatorEvent& event) {
        std::vector<CoordinatorAction> actions;
        coordinator_.step(now_, event, actions);
        EXPECT_EQ(broken_invariant(coordinator_), "");
        return actions;
    }

    static Request request(std::uint64_t id) {
        Request made;
        made.id = {id};
        made.prompt = {1, 2, 3};
        made.max_tokens = 10;
        made.stop_tokens = {99};
        return made;
    }

    std::vector<CoordinatorAction> token(std::uint64_t id, std::uint32_t attempt,
                                         std::int32_t position, Token value) {
        return step(FromWorker{
            {0}, TokensProduced{{ProducedToken{{{id}, attempt}, position, value, 0, {}}}}});
    }

    std::vector<CoordinatorAction> rejoin(std::uint64_t incarnation) {
        WorkerJoined again;
        again.worker = {0};
        again.incarnation = incarnation;
        again.node.name = "solo";
        return step(again);
    }
    // The worker is given the whole model again; what happens when it is ready.
    std::vector<CoordinatorAction> place(std::uint64_t epoch, std::int64_t pages) {
        now_ = now_ + base::from_seconds(1);
        const auto plan = find<PlanCluster>(step(CoordinatorTick{}));
        EXPECT_TRUE(plan);
        Planned planned;
        planned.plan = plan->plan;
        planned.placement.layers = {{0, 4}};
        planned.flows = {{spec::kCoordinator, 0, 5}, {0, spec::kCoordinator, 5}};
        step(planned);
        return step(FromWorker{{0}, LayersReady{epoch, {0, 4}, pages}});
    }

    TimePoint now_;
    Coordinator coordinator_;
};

TEST_F(CoordinatorTest, LateDuplicateAndForeignTokensAreNeverStreamed) {
    step(Submitted{request(1)});
    EXPECT_TRUE(find<StreamToken>(token(1, 1, 3, 7)));
    EXPECT_FALSE(find<StreamToken>(token(1, 1, 3, 7))) << "a duplicate";
    EXPECT_FALSE(find<StreamToken>(token(1, 2, 4, 7))) << "an attempt that does not exist";
    EXPECT_FALSE(find<StreamToken>(token(5, 1, 3, 7))) << "an unknown request";
    EXPECT_TRUE(find<StreamToken>(token(1, 1, 4, 8)));
    const auto gap = token(1, 1, 7, 7);
    EXPECT_FALSE(find<StreamToken>(gap)) << "a gap";
    EXPECT_TRUE(find<CutOffWorker>(gap)) << "which no loss or delay explains";
}

TEST_F(CoordinatorTest, ASupersededAttemptIsFencedOff) {
    step(Submitted{request(1)});
    step(Submitted{request(2)});
    token(2, 1, 3, 7);
    const auto preempting =
        step(FromWorker{{0}, SequenceStuck{{{2}, 1}, StuckCause::out_of_pages, "no page"}});
    EXPECT_FALSE(find<RequestRouted>(preempting)) << "nothing starts in a step that preempted";
    const auto routed = find<RequestRouted>(step(CoordinatorTick{}));
    ASSERT_TRUE(routed);
    EXPECT_EQ(routed->attempt, 2U) << "the latest gives way and tries again";
    EXPECT_FALSE(find<StreamToken>(token(2, 1, 4, 8)));
    EXPECT_TRUE(find<StreamToken>(token(2, 2, 4, 8)));
}

TEST_F(CoordinatorTest, TheStopTokenEndsItAndEverythingIsFreed) {
    step(Submitted{request(1)});
    token(1, 1, 3, 7);
    const auto actions = token(1, 1, 4, 99);
    ASSERT_TRUE(find<FinishRequest>(actions));
    EXPECT_EQ(find<FinishRequest>(actions)->reason, FinishReason::stop);
    const auto freed = find<SendToWorker>(actions);
    ASSERT_TRUE(freed);
    EXPECT_TRUE(std::holds_alternative<FreeSequences>(freed->message));
    EXPECT_EQ(coordinator_.view().running, 0);
    EXPECT_EQ(coordinator_.view().workers[0].estimated_pages, 0);
}

TEST_F(CoordinatorTest, MinTokensOutlastsAStopToken) {
    Request made = request(1);
    made.min_tokens = 2;
    step(Submitted{made});
    EXPECT_FALSE(find<FinishRequest>(token(1, 1, 3, 99)));
    EXPECT_FALSE(find<FinishRequest>(token(1, 1, 4, 99)));
    EXPECT_TRUE(find<FinishRequest>(token(1, 1, 5, 99)));
}

// Prompts that take ten seconds to their first token: the next ones wait in the queue, in order,
// and no request is forgotten.
TEST_F(CoordinatorTest, WhilePromptsAreSlowOthersWaitInTheQueue) {
    std::map<std::uint64_t, bool> routed;
    const auto note = [&](const std::vector<CoordinatorAction>& actions) {
        for (const CoordinatorAction& action : actions) {
            const auto* route = std::get_if<RequestRouted>(&action);
            if (route == nullptr) continue;
            EXPECT_FALSE(routed[route->id.value]);
            routed[route->id.value] = true;
        }
    };
    const auto submit = [&](std::uint64_t id) {
        Request made = request(id);
        made.prompt.assign(100, 1);
        made.max_tokens = 1;
        note(step(Submitted{made}));
    };
    constexpr std::uint64_t kRequests = 400;
    for (std::uint64_t id = 1; id <= kRequests; ++id) {
        submit(id);
        if (!routed[id]) continue;
        now_ = now_ + base::from_seconds(10);
        note(token(id, 1, 100, 7));
    }
    const PromptWindow& window = coordinator_.impl().prompts;
    EXPECT_EQ(window.in_flight(), 0);
    EXPECT_EQ(window.rows(), 200) << "two prompts";
    for (std::uint64_t id = kRequests + 1; id <= kRequests + 5; ++id) submit(id);
    EXPECT_TRUE(routed[kRequests + 2]);
    EXPECT_FALSE(routed[kRequests + 3]);
    EXPECT_EQ(coordinator_.view().waiting, 3);
    now_ = now_ +
           base::from_seconds(config().policy.prefill_target_s);  // no reason to change the window
    note(token(kRequests + 1, 1, 100, 7));
    EXPECT_TRUE(routed[kRequests + 3]);
    EXPECT_FALSE(routed[kRequests + 4]);
    note(step(Ended{{kRequests + 2}, FinishReason::cancelled}));
    EXPECT_TRUE(routed[kRequests + 4]) << "a prompt that goes makes room, too";
}

TEST_F(CoordinatorTest, AReportFreesWhatShouldNotBeThere) {
    step(Submitted{request(1)});
    WorkerReport report;
    report.held = {{{1}, 1}, {{7}, 3}};
    const auto actions = step(FromWorker{{0}, report});
    const auto out = find<SendToWorker>(actions);
    ASSERT_TRUE(out);
    EXPECT_EQ(std::get<FreeSequences>(out->message).keys, (std::vector<SequenceKey>{{{7}, 3}}));
}

TEST_F(CoordinatorTest, TokensOfOneMessageGoOutInOneMessage) {
    step(Submitted{request(1)});
    step(Submitted{request(2)});
    const auto actions =
        step(FromWorker{{0}, TokensProduced{{{{{1}, 1}, 3, 7, 0, {}}, {{{2}, 1}, 3, 7, 0, {}}}}});
    int messages = 0;
    for (const auto& action : actions) {
        messages += std::holds_alternative<SendToWorker>(action) ? 1 : 0;
    }
    EXPECT_EQ(messages, 1);
}

TEST_F(CoordinatorTest, NoTokenForTooLongIsTriedAgainAndThenEndsWithAnError) {
    step(Submitted{request(1)});
    token(1, 1, 3, 7);
    now_ = now_ + base::from_seconds(301);
    const auto again = step(CoordinatorTick{});
    EXPECT_FALSE(find<FinishRequest>(again));
    ASSERT_TRUE(find<RequestRouted>(again));
    EXPECT_EQ(find<RequestRouted>(again)->attempt, 2U);
    now_ = now_ + base::from_seconds(301);
    const auto actions = step(CoordinatorTick{});
    ASSERT_TRUE(find<FinishRequest>(actions));
    EXPECT_EQ(find<FinishRequest>(actions)->reason, FinishReason::error);
    EXPECT_EQ(find<FinishRequest>(actions)->error,
              "no token for 602 s although it was tried again: the pipelines are stuck");
}

// The rows were lost between two workers: long after, nothing waits anywhere.
TEST_F(CoordinatorTest, RowsThatWereLostAreSentAgain) {
    step(Submitted{request(1)});
    token(1, 1, 3, 7);
    now_ = now_ + base::from_seconds(14);
    WorkerReport idle;
    idle.total_pages = 400;
    idle.held = {{{1}, 1}};
    idle.waiting_rows = 1;
    step(FromWorker{{0}, idle});
    now_ = now_ + base::from_seconds(2);
    EXPECT_FALSE(find<RequestRouted>(step(CoordinatorTick{}))) << "they wait for their turn";
    idle.waiting_rows = 0;
    step(FromWorker{{0}, idle});
    now_ = now_ + base::from_seconds(16);
    const auto again = step(CoordinatorTick{});
    ASSERT_TRUE(find<RequestRouted>(again));
    EXPECT_EQ(find<RequestRouted>(again)->attempt, 2U);
    EXPECT_TRUE(find<StreamToken>(token(1, 2, 4, 8)));
}

TEST_F(CoordinatorTest, ARestartedWorkerReplacesItsOldSelfAndItsRequestsGoOn) {
    step(Submitted{request(1)});
    EXPECT_TRUE(find<StreamToken>(token(1, 1, 3, 7)));
    EXPECT_FALSE(find<FinishRequest>(rejoin(2)));
    EXPECT_FALSE(find<StreamToken>(token(1, 1, 4, 8))) << "it comes from the old self";
    EXPECT_EQ(coordinator_.view().waiting, 1);
    EXPECT_EQ(coordinator_.view().failovers, 1);
    const auto ready = place(2, 400);
    ASSERT_TRUE(find<RequestRouted>(ready));
    EXPECT_EQ(find<RequestRouted>(ready)->attempt, 2U);
    const auto sent = find<SendToWorker>(ready);
    ASSERT_TRUE(sent);
    const StageInput& rows = std::get<StageInputs>(sent->message).inputs.at(0);
    EXPECT_EQ(rows.first_position, 0);
    EXPECT_EQ(rows.tokens, RowTokens({1, 2, 3, 7})) << "the prompt and what was streamed";
    EXPECT_TRUE(find<StreamToken>(token(1, 2, 4, 8)));
    EXPECT_TRUE(rejoin(1).empty()) << "an old hello, late";
}

TEST_F(CoordinatorTest, WithoutAnyWorkerLeftRequestsWaitAndThenEndWithAnError) {
    step(Submitted{request(1)});
    token(1, 1, 3, 7);
    EXPECT_FALSE(find<FinishRequest>(step(WorkerLost{{0}, "died"})));
    now_ = now_ + base::from_seconds(59);
    EXPECT_FALSE(find<FinishRequest>(step(CoordinatorTick{})));
    now_ = now_ + base::from_seconds(2);
    const auto actions = step(CoordinatorTick{});
    ASSERT_TRUE(find<FinishRequest>(actions));
    EXPECT_EQ(find<FinishRequest>(actions)->reason, FinishReason::error);
    EXPECT_EQ(find<FinishRequest>(actions)->cause, FailureCause::unserved);
}

TEST_F(CoordinatorTest, AFailedLoadLeavesTheWorkerOutOfTheNextPlan) {
    WorkerJoined joined;
    joined.worker = {1};
    joined.incarnation = 1;
    joined.node.name = "second";
    step(joined);
    now_ = now_ + base::from_seconds(1);
    const auto planning = step(CoordinatorTick{});
    const auto plan = find<PlanCluster>(planning);
    ASSERT_TRUE(plan);
    Planned planned;
    planned.plan = plan->plan;
    planned.placement.layers = {{0, 2}, {2, 4}};
    planned.flows = {{spec::kCoordinator, 0, 50}, {0, 1, 50}, {1, spec::kCoordinator, 50}};
    step(planned);
    step(FromWorker{{1}, LayersFailed{2, "disk full"}});
    now_ = now_ + base::from_seconds(1);
    const auto actions = step(CoordinatorTick{});
    ASSERT_TRUE(find<PlanCluster>(actions));
    EXPECT_EQ(find<PlanCluster>(actions)->workers, (std::vector<WorkerId>{{0}}));
}

TEST_F(CoordinatorTest, WorkersAreToldWhichModelTheirLayersAreOf) {
    const auto assigned = [this](const CoordinatorConfig& config) {
        coordinator_ = Coordinator(config);
        rejoin(1);
        now_ = now_ + base::from_seconds(1);
        Planned planned;
        planned.plan = find<PlanCluster>(step(CoordinatorTick{})).value().plan;
        planned.placement.layers = {{0, 4}};
        planned.flows = {{spec::kCoordinator, 0, 5}, {0, spec::kCoordinator, 5}};
        return find<SendToWorker>(step(planned)).value();
    };
    CoordinatorConfig of_model_3 = config();
    of_model_3.model = {3};
    const SendToWorker sent = assigned(of_model_3);
    EXPECT_EQ(std::get<AssignLayers>(sent.message).model, ModelId{3});
    EXPECT_THAT(describe(CoordinatorAction{sent}), HasSubstr(" of model 3 epoch 1"));
    // Where there is only one model its number is left out.
    EXPECT_THAT(describe(CoordinatorAction{assigned(config())}), Not(HasSubstr("model")));
}

// Assignment or answer can be lost. Without a repetition the cluster would never serve again.
TEST_F(CoordinatorTest, AnUnansweredAssignmentIsSentAgainUntilItIsAnswered) {
    step(WorkerLost{{0}, "died"});
    WorkerJoined again;
    again.worker = {0};
    again.incarnation = 2;
    again.node.name = "solo";
    step(again);
    now_ = now_ + base::from_seconds(1);
    const auto planning = step(CoordinatorTick{});
    Planned planned;
    planned.plan = find<PlanCluster>(planning)->plan;
    planned.placement.layers = {{0, 4}};
    planned.flows = {{spec::kCoordinator, 0, 5}, {0, spec::kCoordinator, 5}};
    const auto first = step(planned);
    ASSERT_TRUE(find<SendToWorker>(first));
    EXPECT_FALSE(find<SendToWorker>(step(CoordinatorTick{}))) << "at once";
    now_ = now_ + base::from_seconds(6);
    const auto second = step(CoordinatorTick{});
    ASSERT_TRUE(find<SendToWorker>(second));
    EXPECT_EQ(find<SendToWorker>(second)->message, find<SendToWorker>(first)->message);
    step(FromWorker{{0}, LayersReady{2, {0, 4}, 400}});
    now_ = now_ + base::from_seconds(6);
    EXPECT_FALSE(find<SendToWorker>(step(CoordinatorTick{}))) << "it was answered";
}

TEST_F(CoordinatorTest, AnOldHelloOfAWorkerThatWasLostIsNotBelieved) {
    WorkerJoined hello;
    hello.worker = {0};
    hello.incarnation = 2;
    hello.node.name = "solo";
    step(hello);
    step(WorkerLost{{0}, "died"});
    hello.incarnation = 1;
    EXPECT_TRUE(step(hello).empty());
    EXPECT_TRUE(coordinator_.view().workers.empty());
    hello.incarnation = 3;
    step(hello);
    EXPECT_EQ(coordinator_.view().workers.size(), 1U);
}

// The time in the queue of a cluster that served does not count.
TEST_F(CoordinatorTest, WaitingForAPlacementBeginsWhenThereIsNone) {
    Request first = request(1);
    first.prompt.assign(60, 1);
    first.max_tokens = 60;  // half of the memory
    for (std::uint64_t id = 1; id <= 4; ++id) {
        first.id = {id};
        step(Submitted{first});
    }
    EXPECT_GT(coordinator_.view().waiting, 0);
    now_ = now_ + base::from_seconds(100);
    step(Submitted{request(9)});
    const auto lost = step(WorkerLost{{0}, "died"});
    EXPECT_GT(coordinator_.view().waiting, 0);
    now_ = now_ + base::from_seconds(59);
    EXPECT_FALSE(find<FinishRequest>(step(CoordinatorTick{})));
    now_ = now_ + base::from_seconds(2);
    const auto actions = step(CoordinatorTick{});
    ASSERT_TRUE(find<FinishRequest>(actions));
    EXPECT_EQ(find<FinishRequest>(actions)->cause, FailureCause::unserved);
}

// It is preempted, and then the memory shrinks. Fewer tokens than were asked for would look like an
// answer that is whole.
TEST_F(CoordinatorTest, AnAcceptedRequestThatDoesNotFitAnyMoreWaitsAndThenEndsWithAnErrorNotShort) {
    Request big = request(1);
    big.max_tokens = 100;
    step(Submitted{big});
    token(1, 1, 3, 7);
    rejoin(2);
    const auto ready = place(2, 40);  // 40 tokens
    EXPECT_FALSE(find<FinishRequest>(ready));
    EXPECT_FALSE(find<RequestRouted>(ready));
    step(Submitted{request(2)});
    EXPECT_EQ(coordinator_.view().running, 1) << "it does not stand in the way of others";
    now_ = now_ + base::from_seconds(61);
    const auto late = step(CoordinatorTick{});
    ASSERT_TRUE(find<FinishRequest>(late));
    EXPECT_EQ(find<FinishRequest>(late)->id, RequestId{1});
    EXPECT_EQ(find<FinishRequest>(late)->reason, FinishReason::error);
    EXPECT_EQ(find<FinishRequest>(late)->cause, FailureCause::shrunk);
}

TEST_F(CoordinatorTest, WhatDoesNotFitAnyMoreGoesOnWhenMemoryComesBack) {
    Request big = request(1);
    big.max_tokens = 100;
    step(Submitted{big});
    token(1, 1, 3, 7);
    rejoin(2);
    EXPECT_FALSE(find<RequestRouted>(place(2, 40)));
    rejoin(3);
    const auto ready = place(3, 400);
    ASSERT_TRUE(find<RequestRouted>(ready));
    EXPECT_TRUE(find<StreamToken>(token(1, 2, 4, 8)));
}

}  // namespace
}  // namespace helix::core::coordinator_test
