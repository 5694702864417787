// Workers that say what cannot be: the coordinator cuts them off, and goes on.

#include <gtest/gtest.h>

#include <limits>
#include <tuple>

#include "core/find_action.h"
#include "core/scripted_cluster.h"

namespace helix::core::coordinator_entrance_test {
namespace {

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

CoordinatorConfig config_with_swap() {
    CoordinatorConfig config;
    config.n_layers = 4;
    config.context_length = 4096;
    config.vocab_size = 100;
    config.preemption = Preemption::swap;
    config.balance.enabled = false;
    return config;
}

Request request_of(std::uint64_t id, std::int32_t n = 1) {
    Request request;
    request.id = {id};
    request.prompt = {1, 2, 3, 4, 5};
    request.max_tokens = 20;
    request.n = n;
    return request;
}

struct Cast {
    Cast() : cluster_(config_with_swap(), 2, 2, 400, 5, 400) {}

    WorkerId last_stage(std::uint64_t id) const {
        return cluster_.request(id).pipeline.back().worker;
    }
    ProducedToken token(std::uint64_t id, std::int32_t position, Token value,
                        std::uint32_t member = 0) const {
        return {{{id}, cluster_.request(id).attempt, member}, position, value, 0, {}};
    }
    // Sends the message as the worker; true if the worker was cut off with these words in the
    // reason.
    bool cuts_off(WorkerId worker, CoordinatorMessage message, const std::string& words) {
        const auto actions = cluster_.step(FromWorker{worker, std::move(message)});
        const auto cut = find<CutOffWorker>(actions);
        if (!cut) return false;
        EXPECT_EQ(cut->worker, worker);
        EXPECT_NE(cut->reason.find(words), std::string::npos) << cut->reason;
        for (const WorkerView& view : cluster_.view().workers) EXPECT_NE(view.worker, worker);
        return true;
    }
    void expect_goes_on(std::uint64_t id, WorkerId liar) {
        ASSERT_TRUE(cluster_.open(id));
        ASSERT_TRUE(cluster_.request(id).running);
        for (const Stage& stage : cluster_.request(id).pipeline) EXPECT_NE(stage.worker, liar);
    }

    ScriptedCluster cluster_;
};
class Entrance : public testing::Test, protected Cast {};

TEST_F(Entrance, AWorkerThatAnswersOneOfThreeChoicesIsCutOffAndNobodyIsSwapped) {
    cluster_.step(Submitted{request_of(1, 3)});
    const WorkerId liar = last_stage(1);
    const std::uint32_t attempt = cluster_.request(1).attempt;
    EXPECT_TRUE(cuts_off(liar, TokensProduced{{token(1, 5, 7)}}, "than it was asked for"));
    expect_goes_on(1, liar);
    // That it is out of pages it says in vain: it is not here any more.
    cluster_.step(FromWorker{liar, SequenceStuck{{{1}, attempt}, StuckCause::out_of_pages, ""}});
    cluster_.wait(base::from_seconds(1));
    cluster_.step(CoordinatorTick{});
    const auto actions = cluster_.step(FromWorker{
        last_stage(1), TokensProduced{{token(1, 5, 7), token(1, 5, 8, 1), token(1, 5, 9, 2)}}});
    EXPECT_EQ(ScriptedCluster::rows(actions).size(), 3U);
}

TEST_F(Entrance, TokensThatNobodyAskedForEndTheSession) {
    for (const std::int32_t position : {4, 6, -1, 1 << 30}) {
        Cast other;
        SCOPED_TRACE(position);
        const bool is_late = position == 4;  // as if it came twice
        ScriptedCluster& cluster = other.cluster_;
        cluster.step(Submitted{request_of(1)});
        cluster.tokens(1, {7});  // position 5
        const WorkerId last = other.last_stage(1);
        const bool cut = other.cuts_off(last, TokensProduced{{other.token(1, position + 1, 8)}},
                                        "that nobody asked for");
        EXPECT_EQ(cut, !is_late && position >= 0);
    }
}

TEST_F(Entrance, AfterRightDraftsOneMoreTokenMayComeAndNotTwo) {
    cluster_.step(Submitted{request_of(1)});
    cluster_.tokens(1, {7});
    // One row is under way without a draft, so one token may come.
    EXPECT_TRUE(cuts_off(last_stage(1), TokensProduced{{token(1, 6, 8), token(1, 7, 9)}},
                         "that nobody asked for"));
}

TEST_F(Entrance, WhatCannotBeEndsTheSession) {
    using Lie = std::pair<CoordinatorMessage, std::string>;
    const auto lies = [&](Cast& at) {
        const SequenceKey runs = {{1}, at.cluster_.request(1).attempt, 0};
        const SequenceKey other_member = {{1}, runs.attempt, 9};
        WorkerReport report;
        report.total_pages = 400;
        const auto reported = [&](auto change) {
            WorkerReport wrong = report;
            change(wrong);
            return Lie{wrong, "numbers that cannot be"};
        };
        const LayerRange layers = {2, 4};
        std::vector<Lie> all = {
            {TokensProduced{{{runs, 5, 100, 0, {}}}}, "vocabulary"},
            {TokensProduced{{{runs, 5, -1, 0, {}}}}, "vocabulary"},
            {TokensProduced{{{runs, 5, 7, 0, {{1000, 0}}}}}, "vocabulary"},
            {TokensProduced{{{other_member, 5, 7, 0, {}}}}, "member that there never was"},
            {TokensProduced{{}, {{runs, 2, 9, 0, {}}}}, "not the prompt's"},
            {TokensProduced{{}, {{runs, 4000, 9, 0, {}}}}, "not the prompt's"},
            {SequenceStuck{other_member, StuckCause::out_of_pages, ""}, "member"},
            {SequenceStuck{runs, StuckCause::prefix_lost, ""}, "prefix"},
            {SequenceStuck{runs, static_cast<StuckCause>(17), ""}, "cause"},
            {LayersReady{99, layers, 400, 400, "plain"}, "never got"},
            {LayersReady{1, layers, 399, 400, "plain"}, "than it said before"},
            {LayersReady{1, layers, -1, 400, "plain"}, "cannot be"},
            {LayersReady{1, layers, kHuge, 400, "plain"}, "cannot be"},
            {LayersReady{1, layers, 400, kHuge, "plain"}, "cannot be"},
            {LayersReady{1, layers, 400, 400, "plain", kInfinite}, "cannot be"},
            {LayersReady{1, layers, 400, 400, "plain", 1, -1}, "cannot be"},
            {LayersFailed{99, "no"}, "never got"},
            {LayersFailed{1, "no"}, "had loaded"},
            {PeerLost{at.last_stage(1), true, ""}, "itself"},
            reported([](WorkerReport& r) { r.used_pages = 401; }),
            reported([](WorkerReport& r) { r.used_pages = -1; }),
            reported([](WorkerReport& r) { r.total_pages = kHuge; }),
            reported([](WorkerReport& r) { r.cached_pages = 500; }),
            reported([](WorkerReport& r) { r.swapped_pages = -4; }),
            reported([](WorkerReport& r) { r.waiting_rows = kHuge; }),
            reported([](WorkerReport& r) { r.rows = -1; }),
            reported([](WorkerReport& r) { r.busy_ns = kHuge; }),
        };
        return all;
    };
    cluster_.step(Submitted{request_of(1)});
    const std::size_t count = lies(*this).size();
    for (std::size_t i = 0; i < count; ++i) {
        Cast fresh;
        SCOPED_TRACE(i);
        fresh.cluster_.step(Submitted{request_of(1)});
        const WorkerId liar = fresh.last_stage(1);
        const auto [message, words] = lies(fresh)[i];
        EXPECT_TRUE(fresh.cuts_off(liar, message, words));
        fresh.expect_goes_on(1, liar);
    }
}

TEST_F(Entrance, AnswersForAMigrationThatItHasNoPartInEndTheSession) {
    for (std::size_t i = 0; i < 3; ++i) {
        Cast fresh;
        SCOPED_TRACE(i);
        ScriptedCluster& cluster = fresh.cluster_;
        cluster.step(Submitted{request_of(1)});
        cluster.tokens(1, {7});
        const WorkerId source = fresh.last_stage(1);
        const WorkerId target = {source.value == 1 ? 3U : 1U};
        ASSERT_FALSE(find<MigrationEnded>(cluster.step(MoveRequest{{1}})));
        const SequenceKey next = {{1}, cluster.request(1).migration->attempt, 0};
        const std::vector<std::tuple<WorkerId, CoordinatorMessage, std::string>> lies = {
            {source, KvReserved{next}, "no part"},
            {source, KvArrived{next, 1, {2, 4}}, "no part"},
            {target, KvArrived{next, 9, {2, 4}}, "nobody sent"}};
        const auto& [who, message, words] = lies[i];
        EXPECT_TRUE(fresh.cuts_off(who, message, words));
        ASSERT_TRUE(cluster.open(1));
    }
}

// Lost, late and repeated messages, and what other workers made this one believe, are no lies.
TEST_F(Entrance, WhatCameLateOrTwiceOrWasHeardElsewhereIsIgnored) {
    cluster_.step(Submitted{request_of(1)});
    cluster_.tokens(1, {
                           7,
                       });
    const WorkerId last = last_stage(1);
    const SequenceKey never = {{77}, 3, 0};
    const SequenceKey older = {{1}, 0, 0};
    WorkerReport strange;
    strange.total_pages = 400;
    strange.held = {never, older, {{1}, 500, 3}};
    const std::vector<CoordinatorMessage> all = {
        TokensProduced{{token(1, 5, 7)}},
        TokensProduced{{{never, 5, 7, 0, {}}}},
        TokensProduced{{{older, 5, 7, 0, {}}}},
        SequenceStuck{never, StuckCause::failed, "superseded by a newer attempt"},
        SequenceStuck{older, StuckCause::out_of_pages, ""},
        LayersReady{0, {0, 4}, 7, 7, "plain"},
        LayersReady{1, {2, 4}, 400, 400, "plain"},
        LayersFailed{0, "no"},
        KvReserved{never},
        KvArrived{never, 4, {0, 1}},
        KvRefused{older, KvRefusal::impossible, "no"},
        PeerLost{{99}, true, "tcp://elsewhere"},
        PeerLost{{99}, false, ""},
        strange,
    };
    for (std::size_t i = 0; i < all.size(); ++i) {
        SCOPED_TRACE(i);
        EXPECT_FALSE(cuts_off(last, all[i], ""));
    }
    EXPECT_EQ(cluster_.view().workers.size(), 4U);
    EXPECT_FALSE(ScriptedCluster::rows(cluster_.tokens(1, {8})).empty());
}

}  // namespace
}  // namespace helix::core::coordinator_entrance_test
