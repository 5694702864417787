#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>

#include "core/scripted_cluster.h"

// Workers that are drained, join and change their layers while requests run.

namespace helix::core::coordinator_drain_test {
namespace {

CoordinatorConfig config() {
    CoordinatorConfig config;
    config.n_layers = 4;
    config.context_length = 512;
    config.block_size = 4;
    config.expected_output_tokens = 10;
    return config;
}

Request request(std::uint64_t id, std::int32_t max_tokens = 100) {
    Request made;
    made.id = {id};
    made.prompt = {1, 2, 3, 4, 5, 6};
    made.max_tokens = max_tokens;
    return made;
}

// Workers that answer what they are told, one message at a time; what tokens they draw is up to
// the test.
class ElasticCluster : public ScriptedCluster {
  public:
    ElasticCluster(std::uint32_t lanes, std::uint32_t stages, CoordinatorConfig c = config(),
                   std::int64_t last_pages = 0)
        : ScriptedCluster(c, lanes, stages, 400, 5, 0, last_pages) {}

    bool loads = true;  // answer AssignLayers
    std::vector<std::string> reports;
    std::vector<WorkerDrained> drained;
    std::vector<MigrationEnded> moves;
    std::vector<RequestRouted> routed;
    std::vector<std::vector<WorkerId>> loading;  // workers whose layers one step changed
    std::map<WorkerId, AssignLayers> told;       // the last that each was sent
    std::optional<PlanCluster> plan;
    std::int32_t failed = 0;

    void play(const CoordinatorEvent& event) {
        answers_.push_back(event);
        while (!answers_.empty()) {
            const CoordinatorEvent next = answers_.front();
            answers_.pop_front();
            take(step(next));
        }
    }
    void pass(Duration time) {
        for (Duration at; at < time; at = at + base::from_ms(50)) {
            wait(base::from_ms(50));
            play(CoordinatorTick{});
        }
    }
    void token(std::uint64_t id) {
        const RequestState& state = ScriptedCluster::request(id);
        const TokensProduced message{{{{{id}, state.attempt}, length(state), 7, 0, {}}}};
        play(FromWorker{state.pipeline.back().worker, message});
    }
    void join(std::uint32_t id, std::uint64_t incarnation = 1) {
        WorkerJoined joined;
        joined.worker = {id};
        joined.incarnation = incarnation;
        joined.node.name = "w" + std::to_string(id);
        play(joined);
    }
    // Answers the open question with a plan of these lanes, each of which is a pipeline over its
    // workers.
    void planned(const std::vector<std::vector<std::pair<std::uint32_t, LayerRange>>>& lanes,
                 double tokens_per_s = 50) {
        ASSERT_TRUE(plan);
        Planned answer;
        answer.plan = plan->plan;
        answer.placement.layers.resize(plan->workers.size());
        for (const auto& lane : lanes) {
            std::int32_t from = spec::kCoordinator;
            for (const auto& [id, layers] : lane) {
                const auto found =
                    std::find(plan->workers.begin(), plan->workers.end(), WorkerId{id});
                ASSERT_NE(found, plan->workers.end());
                const auto node = static_cast<std::int32_t>(found - plan->workers.begin());
                answer.placement.layers[static_cast<std::size_t>(node)] = layers;
                answer.flows.push_back({from, node, tokens_per_s});
                from = node;
            }
            answer.flows.push_back({from, spec::kCoordinator, tokens_per_s});
        }
        plan.reset();
        play(answer);
    }
    bool said(const std::string& part) const {
        return std::any_of(reports.begin(), reports.end(), [&](const std::string& report) {
            return report.find(part) != std::string::npos;
        });
    }
    const WorkerState& worker(std::uint32_t id) const {
        return coordinator().impl().fleet.at({id});
    }

  private:
    void take(const Actions& actions) {
        std::vector<WorkerId> changing;
        for (const CoordinatorAction& action : actions) {
            if (const auto* send = std::get_if<SendToWorker>(&action)) {
                answer(send->worker, send->message, changing);
            } else if (const auto* report = std::get_if<Report>(&action)) {
                reports.push_back(report->text);
            } else if (const auto* done = std::get_if<WorkerDrained>(&action)) {
                drained.push_back(*done);
            } else if (const auto* moved = std::get_if<MigrationEnded>(&action)) {
                moves.push_back(*moved);
            } else if (const auto* question = std::get_if<PlanCluster>(&action)) {
                plan = *question;
            } else if (const auto* way = std::get_if<RequestRouted>(&action)) {
                routed.push_back(*way);
            } else if (const auto* end = std::get_if<FinishRequest>(&action)) {
                failed += end->reason == FinishReason::error ? 1 : 0;
            } else if (std::holds_alternative<RejectRequest>(action)) {
                ++failed;
            }
        }
        if (!changing.empty()) loading.push_back(changing);
    }
    void answer(WorkerId from, const WorkerMessage& message, std::vector<WorkerId>& changing) {
        if (const auto* assign = std::get_if<AssignLayers>(&message)) {
            told.insert_or_assign(from, *assign);
            if (!worker(from.value).ready) changing.push_back(from);
            if (!loads) return;
            const std::int64_t had = worker(from.value).kv.total();
            answers_.push_back(FromWorker{
                from, LayersReady{assign->epoch, assign->layers, had > 0 ? had : 400, 0, "plain"}});
        } else if (const auto* reserve = std::get_if<ReserveKv>(&message)) {
            answers_.push_back(FromWorker{from, KvReserved{reserve->key}});
        } else if (const auto* send = std::get_if<SendKv>(&message)) {
            answers_.push_back(FromWorker{
                send->to,
                KvArrived{{send->request, send->next_attempt}, send->round, send->layers}});
        }
    }

    std::deque<CoordinatorEvent> answers_;
};

TEST(CoordinatorDrain, RequestsMoveAwayAndTheEmptyWorkerIsDismissed) {
    ElasticCluster cluster(2, 1);
    for (std::uint64_t id = 1; id <= 4; ++id) cluster.play(Submitted{request(id)});
    for (std::uint64_t id = 1; id <= 4; ++id) cluster.token(id);
    ASSERT_EQ(cluster.worker(0).kv.requests(), 2U);
    cluster.play(DrainWorker{{0}, true, false});
    EXPECT_TRUE(cluster.view().workers[0].draining);
    cluster.play(Submitted{request(5)});
    EXPECT_EQ(cluster.lane(5), 1U) << "nothing new goes there";
    for (int i = 0; i < 4; ++i) {
        cluster.pass(base::from_ms(200));
        for (std::uint64_t id = 1; id <= 4; ++id) cluster.token(id);
    }
    EXPECT_EQ(cluster.worker(0).kv.requests(), 0U);
    EXPECT_EQ(cluster.moves.size(), 2U);
    for (const MigrationEnded& move : cluster.moves) {
        EXPECT_EQ(move.cause, MigrationCause::committed) << move.reason;
        EXPECT_EQ(move.begun_for, MigrationReason::drain);
    }
    EXPECT_EQ(cluster.view().migrations.of(MigrationReason::drain, MigrationPhase::committed), 2);
    ASSERT_TRUE(cluster.plan);
    EXPECT_EQ(cluster.plan->workers, (std::vector<WorkerId>{{1}}));
    EXPECT_EQ(cluster.plan->current.layers, (std::vector<LayerRange>{{0, 4}}));
    EXPECT_TRUE(cluster.drained.empty()) << "it is still in the placement";
    cluster.planned({{{1, {0, 4}}}}, 1);
    cluster.pass(base::from_ms(50));
    ASSERT_EQ(cluster.drained.size(), 1U);
    EXPECT_EQ(cluster.drained[0].worker, WorkerId{0});
    EXPECT_TRUE(cluster.drained[0].remove);
    EXPECT_TRUE(cluster.loading.empty()) << "nobody's layers changed";
    EXPECT_EQ(cluster.failed, 0);
    cluster.reports.clear();
    cluster.play(WorkerLost{{0}, "was lost (its connection broke)"});
    EXPECT_EQ(cluster.reports, (std::vector<std::string>{"worker w0 left"}));
    cluster.pass(base::from_seconds(1));
    EXPECT_FALSE(cluster.plan) << "nobody misses it";
}

// It was emptied, its connection broke and came back: it is in no placement, and keeps its layers.
// A worker that comes meanwhile is told to it with the assignment that places that one, so that a
// request can go on from it to the newcomer once the drain is called off.
TEST(CoordinatorDrain, ADrainedWorkerIsToldOfWhoComesMeanwhileAndSendsToThemAfterwards) {
    ElasticCluster cluster(2, 2);  // w0 -> w1 and w2 -> w3
    cluster.play(DrainWorker{{0}});
    cluster.pass(base::from_seconds(1));
    cluster.planned({{{2, {0, 2}}, {3, {2, 4}}}}, 1);
    cluster.pass(base::from_ms(50));
    ASSERT_EQ(cluster.drained.size(), 1U);
    cluster.told.clear();
    cluster.join(4);
    cluster.pass(base::from_seconds(1));
    cluster.planned({{{2, {0, 2}}, {3, {2, 4}}}, {{2, {0, 2}}, {4, {2, 4}}}}, 500);
    cluster.pass(base::from_seconds(1));
    const auto told = cluster.told.find(WorkerId{0});
    ASSERT_NE(told, cluster.told.end()) << "the drained worker was not told of the new placement";
    EXPECT_EQ(told->second.layers, (LayerRange{0, 2})) << "it keeps its layers";
    EXPECT_TRUE(std::any_of(told->second.peers.begin(), told->second.peers.end(),
                            [](const Peer& peer) { return peer.worker == WorkerId{4}; }));
    cluster.play(DrainWorker{{0}, false, true});
    cluster.pass(base::from_seconds(1));
    cluster.planned({{{0, {0, 2}}, {4, {2, 4}}}}, 5000);
    cluster.pass(base::from_ms(200));
    EXPECT_TRUE(std::none_of(cluster.loading.begin(), cluster.loading.end(), [](const auto& step) {
        return std::find(step.begin(), step.end(), WorkerId{0}) != step.end();
    })) << "it loads nothing";
    cluster.play(Submitted{request(1)});
    ASSERT_FALSE(cluster.routed.empty());
    const Pipeline way = {{{0}, {0, 2}}, {{4}, {2, 4}}};
    EXPECT_EQ(cluster.routed.back().pipeline, way);
    cluster.token(1);
    EXPECT_EQ(cluster.failed, 0);
}

// A worker that serves is given the layers that it has with each new placement. That it could not
// load them cannot be.
TEST(CoordinatorDrain, WhoServesCannotHaveFailedToLoadTheSameLayersAnew) {
    ElasticCluster cluster(2, 2);
    cluster.play(DrainWorker{{0}});
    cluster.pass(base::from_seconds(1));
    cluster.planned({{{2, {0, 2}}, {3, {2, 4}}}}, 1);
    cluster.play(Submitted{request(1)});
    cluster.told.clear();
    cluster.join(4);
    cluster.pass(base::from_seconds(1));
    cluster.loads = false;  // nobody has answered
    cluster.planned({{{2, {0, 2}}, {3, {2, 4}}}, {{2, {0, 2}}, {4, {2, 4}}}}, 500);
    ASSERT_TRUE(cluster.told.contains({2}) || cluster.told.contains({0}));
    const WorkerId who = cluster.told.contains({2}) ? WorkerId{2} : WorkerId{0};
    ASSERT_TRUE(cluster.worker(who.value).ready);
    cluster.play(FromWorker{who, LayersFailed{cluster.told.at(who).epoch, "it says so"}});
    EXPECT_TRUE(cluster.said("could not load what it had loaded"));
}

// ---- workers that are lost while they are drained
// -----------------------------------------------------------------------------------

// Worker 0 of two that can each serve alone is drained, to the end.
void drain_first(ElasticCluster& cluster) {
    cluster.play(DrainWorker{{0}});
    cluster.pass(base::from_seconds(1));
    cluster.planned({{{1, {0, 4}}}}, 1);
    cluster.pass(base::from_ms(50));
    ASSERT_EQ(cluster.drained.size(), 1U);
}

TEST(CoordinatorDrain, AConnectionThatBreaksDoesNotEndIt) {
    ElasticCluster cluster(2, 1);
    drain_first(cluster);
    for (std::uint64_t again = 2; again < 4; ++again) {
        cluster.play(WorkerLost{{0}, "was lost (its connection broke)"});
        EXPECT_EQ(cluster.coordinator().drains(), (std::vector<RememberedDrain>{{"w0", false}}));
        EXPECT_EQ(cluster.view().drained_away.size(), 1U);
        cluster.join(0, again);
        EXPECT_TRUE(cluster.view().drained_away.empty());
        EXPECT_TRUE(cluster.said("worker w0 is drained, as before it was lost"));
        cluster.pass(base::from_seconds(1));
        EXPECT_TRUE(cluster.worker(0).draining && cluster.worker(0).drained);
        if (!cluster.plan) continue;
        EXPECT_EQ(cluster.plan->workers, (std::vector<WorkerId>{{1}}));
        cluster.planned({{{1, {0, 4}}}}, 1);
    }
    cluster.play(DrainWorker{{0}, false, true});
    cluster.pass(base::from_seconds(1));
    ASSERT_TRUE(cluster.plan);
    EXPECT_EQ(cluster.plan->workers.size(), 2U);
    cluster.play(WorkerLost{{0}, "died"});
    cluster.join(0, 9);
    EXPECT_FALSE(cluster.worker(0).draining) << "it was called off";
}

TEST(CoordinatorDrain, NeitherDoesAStopOfTheWorkerButItCanBeCalledOffMeanwhile) {
    ElasticCluster cluster(2, 1);
    drain_first(cluster);
    cluster.play(WorkerLost{{0}, "left (was stopped)", true});
    EXPECT_EQ(cluster.view().drained_away.size(), 1U);
    DrainWorker off{{}, false, true};
    for (const char* name : {"somebody", "w1"}) {
        off.name = name;
        cluster.play(off);
        EXPECT_EQ(cluster.view().drained_away.size(), 1U) << name;
    }
    off.name = "w0";
    cluster.play(off);
    EXPECT_TRUE(cluster.view().drained_away.empty());
    EXPECT_TRUE(cluster.coordinator().drains().empty());
    cluster.join(0, 2);
    EXPECT_FALSE(cluster.worker(0).draining);
}

TEST(CoordinatorDrain, OneThatWasRemovedAndHasLeftIsUsedWhenItIsStartedAgain) {
    ElasticCluster cluster(2, 1);
    cluster.play(DrainWorker{{0}, true, false});
    cluster.play(WorkerLost{{0}, "left (was stopped)", true});
    EXPECT_TRUE(cluster.view().drained_away.empty()) << "its user ended it before it was empty";
    cluster.join(0, 2);
    EXPECT_FALSE(cluster.worker(0).draining);
}

TEST(CoordinatorDrain, OneThatWasBeingRemovedIsRemovedWhenItIsBack) {
    ElasticCluster cluster(2, 1);
    cluster.play(DrainWorker{{0}, true, false});
    cluster.play(WorkerLost{{0}, "was lost (its connection broke)"});
    cluster.join(0, 2);
    EXPECT_TRUE(cluster.drained.empty()) << "the others have not taken its layers over yet";
    cluster.pass(base::from_seconds(1));
    EXPECT_TRUE(cluster.drained.empty());
    cluster.planned({{{1, {0, 4}}}}, 1);
    cluster.pass(base::from_ms(50));
    ASSERT_EQ(cluster.drained.size(), 1U);
    EXPECT_TRUE(cluster.drained[0].remove);
}

// Otherwise a connection that breaks at the wrong moment would take the only machines that can
// serve out of service.
TEST(CoordinatorDrain, OneThatTheOthersCannotDoWithoutIsUsedAgainThoughItWasLostMeanwhile) {
    ElasticCluster cluster(1, 2);
    cluster.play(DrainWorker{{0}});
    cluster.play(WorkerLost{{0}, "was lost (its connection broke)"});
    cluster.join(0, 2);
    EXPECT_TRUE(cluster.worker(0).draining);
    cluster.pass(base::from_seconds(1));
    ASSERT_TRUE(cluster.plan);
    EXPECT_EQ(cluster.plan->workers, (std::vector<WorkerId>{{1}}));
    cluster.play(NotPlanned{cluster.plan->plan, "the model does not fit"});
    EXPECT_FALSE(cluster.worker(0).draining);
    EXPECT_EQ(cluster.worker(0).drain_refused, "the model does not fit");
    cluster.plan.reset();
    cluster.pass(base::from_seconds(1));
    ASSERT_TRUE(cluster.plan);
    EXPECT_EQ(cluster.plan->workers.size(), 2U);
}

TEST(CoordinatorDrain, WhatCannotMoveIsComputedAnewElsewhereAfterAWhile) {
    CoordinatorConfig still = config();
    still.migration.enabled = false;
    ElasticCluster cluster(2, 1, still);
    cluster.play(Submitted{request(1)});
    cluster.token(1);
    const std::uint32_t lane = cluster.lane(1);
    cluster.play(DrainWorker{{lane}, false, false});
    cluster.pass(base::from_seconds(1));
    cluster.token(1);
    EXPECT_EQ(cluster.lane(1), lane) << "it may finish there";
    cluster.pass(still.empty_timeout);
    EXPECT_EQ(cluster.lane(1), 1 - lane);
    EXPECT_EQ(cluster.request(1).attempt, 2U);
    EXPECT_EQ(cluster.request(1).output.size(), 2U) << "what was streamed stands";
    EXPECT_EQ(cluster.failed, 0);
}

TEST(CoordinatorDrain, WithoutAPlacementItIsRefusedAndNothingIsLost) {
    ElasticCluster cluster(1, 2);
    cluster.play(Submitted{request(1)});
    cluster.token(1);
    cluster.play(DrainWorker{{1}, true, false});
    EXPECT_TRUE(cluster.view().serving) << "it is needed until there is another placement";
    cluster.play(Submitted{request(2)});
    EXPECT_TRUE(cluster.request(2).running);
    cluster.pass(base::from_ms(500));
    ASSERT_TRUE(cluster.plan);
    EXPECT_EQ(cluster.plan->workers, (std::vector<WorkerId>{{0}}));
    cluster.play(NotPlanned{cluster.plan->plan, "the model does not fit"});
    const WorkerView view = cluster.view().workers[1];
    EXPECT_FALSE(view.draining);
    EXPECT_FALSE(view.remove);
    EXPECT_EQ(view.drain_refused, "the model does not fit");
    EXPECT_TRUE(cluster.said("worker w1 is not drained"));
    cluster.token(1);
    cluster.token(2);
    EXPECT_EQ(cluster.failed, 0);
}

// Two lanes of one worker; the first has four times the memory.
class UnequalLanes : public ::testing::Test {
  protected:
    UnequalLanes() {
        cluster.play(Submitted{request(1, 300)});
        cluster.token(1);
        EXPECT_EQ(cluster.lane(1), 0U) << "the other one could not hold it";
    }
    // Its request has a token every second.
    void pass_seconds(int seconds) {
        for (int i = 0; i < seconds && cluster.open(1); ++i) {
            cluster.pass(base::from_seconds(1));
            if (cluster.open(1) && cluster.request(1).running) cluster.token(1);
        }
    }
    ElasticCluster cluster{2, 1, config(), 100};
};

TEST_F(UnequalLanes, ADrainWaitsForTheRequestThatNothingElseCouldHold) {
    cluster.play(DrainWorker{{0}, true, false});
    EXPECT_NE(cluster.view().workers[0].drain_waits, "");
    pass_seconds(1);
    cluster.planned({{{1, {0, 4}}}}, 1);
    pass_seconds(150);
    EXPECT_TRUE(cluster.request(1).running);
    EXPECT_EQ(cluster.request(1).attempt, 1U);
    EXPECT_EQ(cluster.failed, 0);
    EXPECT_TRUE(cluster.said("draining waits: a request of up to 308 tokens has to end first"));
    EXPECT_EQ(cluster.view().workers[1].drain_waits, "");
    // What would not fit without the worker is refused, other requests are served.
    cluster.play(Submitted{request(2, 200)});
    EXPECT_FALSE(cluster.open(2));
    EXPECT_EQ(cluster.failed, 1);
    cluster.play(Submitted{request(3, 40)});
    EXPECT_TRUE(cluster.request(3).running);
    Request unlimited = request(4, 0);
    cluster.play(Submitted{std::move(unlimited)});
    EXPECT_LE(cluster.request(4).max_output, 94) << "what the other one can hold";
    cluster.token(3);
    cluster.token(4);
    cluster.play(Ended{{1}, FinishReason::cancelled});
    for (int i = 0; i < 10; ++i) {
        cluster.pass(base::from_ms(200));
        for (const std::uint64_t id : {3U, 4U}) {
            if (cluster.request(id).running) cluster.token(id);
        }
    }
    ASSERT_EQ(cluster.drained.size(), 1U);
    EXPECT_EQ(cluster.drained[0].worker, WorkerId{0});
    EXPECT_EQ(cluster.view().workers[0].drain_waits, "");
    EXPECT_EQ(cluster.failed, 1);
}

// This also holds where the new placement is only about more flow.
TEST_F(UnequalLanes, APlacementThatCouldNotHoldARequestBeginsBehindIt) {
    cluster.join(2);
    cluster.pass(base::from_ms(500));
    cluster.planned({{{1, {0, 4}}}}, 500);
    pass_seconds(150);
    EXPECT_TRUE(cluster.request(1).running);
    EXPECT_TRUE(cluster.loading.empty());
    EXPECT_TRUE(cluster.said("a new placement waits"));
    cluster.play(Submitted{request(2, 200)});
    EXPECT_FALSE(cluster.open(2)) << "it would wait for it, too";
    cluster.play(Ended{{1}, FinishReason::cancelled});
    cluster.pass(base::from_seconds(1));
    EXPECT_TRUE(cluster.worker(0).layers.empty());
    EXPECT_TRUE(cluster.view().serving);
}

TEST_F(UnequalLanes, AWorkerThatDiesWhileItsDrainWaitsEndsThatRequestWithAReason) {
    cluster.play(DrainWorker{{0}, true, false});
    pass_seconds(5);
    cluster.play(WorkerLost{{0}, "died"});
    cluster.pass(base::from_seconds(1));
    cluster.planned({{{1, {0, 4}}}}, 1);
    cluster.pass(base::from_seconds(config().unserved_timeout.seconds() - 2));
    EXPECT_EQ(cluster.failed, 0);
    cluster.pass(base::from_seconds(4));
    EXPECT_EQ(cluster.failed, 1);
}

TEST_F(UnequalLanes, CallingTheDrainOffEndsTheWaiting) {
    cluster.play(DrainWorker{{0}, true, false});
    pass_seconds(5);
    cluster.play(DrainWorker{{0}, false, true});
    EXPECT_EQ(cluster.view().workers[0].drain_waits, "");
    cluster.play(Submitted{request(2, 200)});
    EXPECT_TRUE(cluster.open(2));
    EXPECT_EQ(cluster.failed, 0);
}

// Service pauses until the other worker has loaded everything, which takes longer than requests
// wait where no placement can be had.
TEST(CoordinatorDrain, WhileItsSuccessorLoadsNobodyIsGivenUp) {
    ElasticCluster cluster(1, 2);
    cluster.play(Submitted{request(1)});
    cluster.token(1);
    cluster.play(DrainWorker{{1}, true, false});
    cluster.pass(base::from_ms(500));
    cluster.loads = false;
    cluster.planned({{{0, {0, 4}}}});
    cluster.pass(config().empty_timeout);
    cluster.play(Submitted{request(2)});
    cluster.pass(config().unserved_timeout + config().unserved_timeout);
    EXPECT_FALSE(cluster.request(1).running);
    EXPECT_EQ(cluster.failed, 0);
    cluster.loads = true;
    cluster.pass(config().assign_repeat);
    EXPECT_TRUE(cluster.request(1).running);
    EXPECT_TRUE(cluster.request(2).running);
    EXPECT_EQ(cluster.failed, 0);
}

// A successor that never loads does not hold them for ever.
TEST(CoordinatorDrain, ASuccessorThatNeverLoadsIsNotWaitedForForEver) {
    ElasticCluster cluster(1, 2);
    cluster.play(Submitted{request(1)});
    cluster.token(1);
    cluster.play(DrainWorker{{1}, true, false});
    cluster.pass(base::from_ms(500));
    cluster.loads = false;
    cluster.planned({{{0, {0, 4}}}});
    cluster.pass(config().stall_timeout + config().unserved_timeout + config().empty_timeout);
    EXPECT_EQ(cluster.failed, 1);
}

TEST(CoordinatorDrain, OffMakesItAWorkerLikeAnyOther) {
    ElasticCluster cluster(2, 1);
    cluster.play(DrainWorker{{0}, false, false});
    cluster.pass(base::from_ms(500));
    cluster.planned({{{1, {0, 4}}}}, 1);
    cluster.pass(base::from_ms(50));
    ASSERT_EQ(cluster.drained.size(), 1U);
    EXPECT_FALSE(cluster.drained[0].remove);
    EXPECT_TRUE(cluster.view().workers[0].drained);
    cluster.play(DrainWorker{{0}, false, true});
    EXPECT_FALSE(cluster.view().workers[0].draining);
    cluster.pass(base::from_ms(500));
    ASSERT_TRUE(cluster.plan);
    EXPECT_EQ(cluster.plan->workers.size(), 2U);
    cluster.planned({{{0, {0, 4}}}, {{1, {0, 4}}}});
    cluster.play(Submitted{request(1)});
    cluster.play(Submitted{request(2)});
    EXPECT_NE(cluster.lane(1), cluster.lane(2));
    EXPECT_TRUE(cluster.loading.empty()) << "it had kept its layers";
}

TEST(CoordinatorTransition, LaneByLaneServiceGoesOn) {
    ElasticCluster cluster(2, 2);
    for (std::uint64_t id = 1; id <= 4; ++id) cluster.play(Submitted{request(id)});
    for (std::uint64_t id = 1; id <= 4; ++id) cluster.token(id);
    cluster.join(4);
    cluster.pass(base::from_ms(500));
    cluster.planned({{{0, {0, 1}}, {1, {1, 4}}}, {{2, {0, 3}}, {3, {3, 4}}}, {{4, {0, 4}}}});
    cluster.loads = true;
    for (int i = 0; i < 40; ++i) {
        cluster.pass(base::from_ms(50));
        EXPECT_TRUE(cluster.view().serving) << "at " << i;
        for (std::uint64_t id = 1; id <= 4; ++id) {
            if (cluster.request(id).running) cluster.token(id);
        }
    }
    using Step = std::vector<WorkerId>;
    ASSERT_EQ(cluster.loading.size(), 3U);
    EXPECT_EQ(cluster.loading[0], (Step{{4}})) << "nobody misses the new one";
    const bool first = cluster.loading[1] == Step{{0}, {1}};
    EXPECT_EQ(cluster.loading[1], (first ? Step{{0}, {1}} : Step{{2}, {3}}));
    EXPECT_EQ(cluster.loading[2], (first ? Step{{2}, {3}} : Step{{0}, {1}}));
    EXPECT_TRUE(cluster.said("in force: w0 layers 0-0; w1 layers 1-3;"));
    EXPECT_GT(cluster.moves.size(), 0U);
    for (const MigrationEnded& move : cluster.moves) {
        EXPECT_EQ(move.begun_for, MigrationReason::transition);
    }
    for (std::uint64_t id = 1; id <= 4; ++id) EXPECT_GT(cluster.request(id).output.size(), 10U);
    EXPECT_EQ(cluster.failed, 0);
}

TEST(CoordinatorTransition, ASingleChainPausesAndItsRequestsGoOnBehindIt) {
    ElasticCluster cluster(1, 2);
    cluster.play(Submitted{request(1)});
    cluster.token(1);
    cluster.join(2);
    cluster.pass(base::from_ms(500));
    cluster.planned({{{0, {0, 1}}, {1, {1, 3}}, {2, {3, 4}}}});
    EXPECT_TRUE(cluster.said("service pauses"));
    ASSERT_EQ(cluster.loading.size(), 1U);
    EXPECT_EQ(cluster.loading[0], (std::vector<WorkerId>{{2}}))
        << "it loads while the others serve";
    cluster.play(Submitted{request(2)});
    cluster.token(1);
    EXPECT_FALSE(cluster.request(2).running);
    cluster.loads = false;
    cluster.pass(config().empty_timeout + base::from_ms(100));
    EXPECT_FALSE(cluster.request(1).running) << "it is not stuck with workers that change";
    EXPECT_EQ(cluster.loading.size(), 2U);
    cluster.loads = true;
    cluster.pass(config().assign_repeat + base::from_ms(100));
    EXPECT_TRUE(cluster.request(1).running);
    EXPECT_TRUE(cluster.request(2).running);
    EXPECT_EQ(cluster.request(1).output.size(), 2U);
    EXPECT_EQ(cluster.request(1).pipeline.size(), 3U);
    EXPECT_EQ(cluster.failed, 0);
}

TEST(CoordinatorTransition, ADrainedWorkerServesUntilItsSuccessorHasLoaded) {
    ElasticCluster cluster(1, 2);
    cluster.play(Submitted{request(1)});
    cluster.token(1);
    cluster.join(2);
    cluster.play(DrainWorker{{1}, true, false});
    cluster.pass(base::from_ms(500));
    ASSERT_TRUE(cluster.plan);
    EXPECT_EQ(cluster.plan->workers, (std::vector<WorkerId>{{0}, {2}}));
    cluster.loads = false;
    cluster.planned({{{0, {0, 2}}, {2, {2, 4}}}});
    cluster.pass(base::from_seconds(1));
    EXPECT_TRUE(cluster.view().serving);
    cluster.token(1);
    EXPECT_TRUE(cluster.drained.empty());
    cluster.loads = true;
    for (int i = 0; i < 3; ++i) {
        cluster.pass(config().assign_repeat);
        cluster.token(1);
    }
    ASSERT_EQ(cluster.drained.size(), 1U);
    EXPECT_EQ(cluster.request(1).pipeline.back().worker, WorkerId{2});
    ASSERT_EQ(cluster.moves.size(), 1U);
    EXPECT_EQ(cluster.moves[0].phase, MigrationPhase::committed);
    EXPECT_EQ(cluster.failed, 0);
}

TEST(CoordinatorTransition, AWorkerLostOnTheWayDoesNotStopTheOthers) {
    ElasticCluster cluster(2, 1);
    cluster.play(Submitted{request(1)});
    cluster.token(1);
    cluster.join(2);
    cluster.pass(base::from_ms(500));
    cluster.loads = false;
    cluster.planned({{{0, {0, 4}}}, {{1, {0, 2}}, {2, {2, 4}}}});
    cluster.play(WorkerLost{{2}, "was lost"});
    cluster.loads = true;
    cluster.pass(base::from_seconds(1));
    EXPECT_TRUE(cluster.view().serving);
    ASSERT_TRUE(cluster.plan);
    cluster.planned({{{0, {0, 4}}}, {{1, {0, 4}}}});
    cluster.pass(base::from_seconds(1));
    cluster.play(Submitted{request(2)});
    cluster.play(Submitted{request(3)});
    EXPECT_NE(cluster.lane(2), cluster.lane(3));
    EXPECT_EQ(cluster.failed, 0);
}

}  // namespace
}  // namespace helix::core::coordinator_drain_test
