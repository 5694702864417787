// Whole migrations between real workers, undisturbed and with one fault at every step.

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <ostream>
#include <string>

#include "base/effort.h"
#include "core/moving_cluster.h"

namespace helix::core::migration_cluster_test {
namespace {

using Fate = MovingCluster::Fate;
using Text = std::map<std::int32_t, std::vector<Token>>;

struct Case {
    std::string name;
    std::int32_t prompt = 30;
    std::int32_t n = 1;
    std::int32_t beams = 0;
    std::int32_t drafts = 0;
    bool prefix_cache = false;
    bool history = false;  // draws depend on all tokens before
    Preemption preemption = Preemption::automatic;
    std::int32_t shared_kv_layers = 0;
};

void PrintTo(const Case& one, std::ostream* out) {
    *out << one.name;
}

const std::vector<Case>& cases() {
    static const std::vector<Case> all = {
        {"one", 30},
        {"four_choices", 23, 4},
        {"three_beams", 23, 1, 3},
        {"drafts", 30, 1, 0, 3},
        {"prefix_cache", 32, 1, 0, 0, true},
        {"only_a_last_round", 2, 1, 0, 0, false, true},
        {"swap", 29, 2, 0, 0, false, true, Preemption::swap},
        {"shared_kv", 29, 2, 0, 0, false, true, Preemption::swap, 2},
    };
    return all;
}

Request request_of(const Case& what) {
    Request made;
    made.id = {1};
    for (Token t = 0; t < what.prompt; ++t) made.prompt.push_back(t % 5 + 1);
    made.max_tokens = 40;
    made.n = what.n;
    made.sampling.seed = 7;
    if (what.beams > 0) {
        made.n = 1;
        made.beam = BeamSearch{what.beams, 1, EarlyStopping::never};
    }
    if (what.history) made.sampling.repetition_penalty = 1.5F;
    if (what.drafts > 0) made.max_draft_tokens = what.drafts;
    return made;
}

CoordinatorConfig config_of(const Case& what) {
    CoordinatorConfig config = MovingCluster::settings();
    config.prefix_cache = what.prefix_cache;
    config.preemption = what.preemption;
    config.shared_kv_layers = what.shared_kv_layers;
    return config;
}

std::int64_t outputs(const MovingCluster& cluster) {
    const RequestState* state = cluster.request(1);
    if (state == nullptr) return 1000;
    return static_cast<std::int64_t>(state->group ? state->group->longest_output()
                                                  : state->output.size());
}

Text undisturbed(const Case& what) {
    MovingCluster cluster(config_of(what));
    cluster.submit(request_of(what));
    EXPECT_EQ(cluster.settle(), "");
    EXPECT_EQ(cluster.answers[1].finish->reason, FinishReason::length);
    return cluster.answers[1].choices;
}

// Moves the request once after the third token; from then on messages are counted.
void move_once(MovingCluster& cluster, const Case& what,
               const std::function<Fate(std::size_t)>& fate = {}) {
    cluster.submit(request_of(what));
    cluster.run_until([&] { return outputs(cluster) >= 3; });
    cluster.messages = 0;
    cluster.fate = fate;
    cluster.step(MoveRequest{{1}});
}

// How many messages are sent from the beginning of a migration until a while after its end.
std::size_t messages_of(const Case& what) {
    MovingCluster cluster(config_of(what));
    move_once(cluster, what);
    EXPECT_TRUE(cluster.run_until([&] { return !cluster.ended.empty(); }));
    return cluster.messages + 14;
}

class MigrationCluster : public ::testing::TestWithParam<Case> {
  protected:
    // Runs the case with something done when the n-th message is sent, for every n.
    void at_each_message(
        const std::function<void(MovingCluster&)>& disturb,
        const std::function<void(MovingCluster&)>& judge,
        const std::function<void(MovingCluster&)>& prepare = [](MovingCluster&) {}) {
        const std::size_t count = messages_of(GetParam());
        for (std::size_t n = 0; n < count && !HasFailure(); n += kSweepStride) {
            SCOPED_TRACE(GetParam().name + ", at message " + std::to_string(n));
            MovingCluster cluster(config_of(GetParam()));
            prepare(cluster);
            move_once(cluster, GetParam(), [&](std::size_t at) {
                if (at == n) cluster.after({}, [&] { disturb(cluster); });
                return Fate::deliver;
            });
            EXPECT_EQ(cluster.settle(), "");
            judge(cluster);
        }
    }
    void expect_text(MovingCluster& cluster) {
        ASSERT_TRUE(cluster.answers[1].finish);
        EXPECT_EQ(cluster.answers[1].finish->error, "");
        EXPECT_EQ(cluster.answers[1].choices, text_);
    }

    Text text_ = undisturbed(GetParam());
};

TEST_P(MigrationCluster, TheTextIsThatOfARunThatStayed) {
    MovingCluster cluster(config_of(GetParam()));
    move_once(cluster, GetParam());
    EXPECT_EQ(cluster.settle(), "");
    ASSERT_EQ(cluster.ended.size(), 1U);
    EXPECT_EQ(cluster.ended[0].phase, MigrationPhase::committed) << cluster.ended[0].reason;
    EXPECT_GT(cluster.ended[0].pages, 0);
    EXPECT_EQ(cluster.routed.size(), 2U) << "nothing was computed anew";
    expect_text(cluster);
    // That is the last round's way there and back, and a part of KV or two.
    EXPECT_LE(cluster.ended[0].held.ms(), 12);
}

TEST_P(MigrationCluster, AMessageIsLostOrComesTwiceOrLate) {
    const std::size_t count = messages_of(GetParam());
    std::map<MigrationPhase, std::int64_t> phases;
    for (const Fate fate : {Fate::lose, Fate::twice, Fate::late}) {
        for (std::size_t n = 0; n < count && !HasFailure(); n += kSweepStride) {
            SCOPED_TRACE(GetParam().name + ", message " + std::to_string(n) + " has fate " +
                         std::to_string(static_cast<int>(fate)));
            MovingCluster cluster(config_of(GetParam()));
            move_once(cluster, GetParam(),
                      [&](std::size_t at) { return at == n ? fate : Fate::deliver; });
            EXPECT_EQ(cluster.settle(), "");
            expect_text(cluster);
            ASSERT_EQ(cluster.ended.size(), 1U);
            ++phases[cluster.ended[0].phase];
        }
    }
    EXPECT_GT(phases[MigrationPhase::last_round], 0);
    EXPECT_GT(phases[MigrationPhase::committed], 0);
}

TEST_P(MigrationCluster, AWorkerIsKilled) {
    for (std::uint32_t w = 0; w < 4; ++w) {
        SCOPED_TRACE("worker " + std::to_string(w));
        at_each_message([w](MovingCluster& cluster) { cluster.kill(w); },
                        [&](MovingCluster& cluster) { expect_text(cluster); });
    }
}

TEST_P(MigrationCluster, TheClientGoes) {
    at_each_message([](MovingCluster& cluster) { cluster.step(Ended{{1}}); },
                    [](MovingCluster& cluster) {
                        EXPECT_EQ(cluster.answers[1].finish->reason, FinishReason::cancelled);
                    });
}

TEST_P(MigrationCluster, ALinkBreaks) {
    for (const auto& [one, other] : {std::pair(0U, 3U), std::pair(1U, 0U), std::pair(2U, 3U)}) {
        SCOPED_TRACE("workers " + std::to_string(one) + " and " + std::to_string(other));
        const FromWorker said{{one}, PeerLost{{other}}};
        at_each_message([&](MovingCluster& cluster) { cluster.step(said); },
                        [&](MovingCluster& cluster) { expect_text(cluster); });
    }
}

// Request 2 is more urgent, so request 1 gives its pages back.
TEST_P(MigrationCluster, ItIsPreempted) {
    for (std::uint32_t w = 0; w < 4; ++w) {
        SCOPED_TRACE("for worker " + std::to_string(w));
        std::int64_t preempted = 0;
        at_each_message(
            [w](MovingCluster& cluster) {
                const RequestState* urgent = cluster.request(2);
                if (urgent == nullptr || stage_at(urgent->pipeline, {w}) == nullptr) return;
                cluster.step(FromWorker{
                    {w}, SequenceStuck{{{2}, urgent->attempt}, StuckCause::out_of_pages, "test"}});
            },
            [&](MovingCluster& cluster) {
                expect_text(cluster);
                preempted += cluster.view().preemptions;
            },
            [](MovingCluster& cluster) {
                Request urgent = request_of(cases()[0]);
                urgent.id = {2};
                urgent.priority = 1;
                cluster.submit(urgent);
                cluster.run_until([&] { return cluster.tokens_of(2) > 0; });
            });
    }
}

INSTANTIATE_TEST_SUITE_P(All, MigrationCluster, ::testing::ValuesIn(cases()),
                         [](const auto& one) { return one.param.name; });

TEST(MigrationInCluster, AHundredTimesInARow) {
    constexpr std::size_t kMoves = kSanitized ? 20 : 100;
    Case what{"long"};
    CoordinatorConfig config = config_of(what);
    config.context_length = 1400;
    Request request = request_of(what);
    request.max_tokens = 13 * kMoves;
    Text stayed;
    for (const bool moves : {false, true}) {
        MovingCluster cluster(config, 3000);
        cluster.submit(request);
        for (std::size_t i = 0; moves && i < kMoves; ++i) {
            const std::int64_t before = std::max<std::int64_t>(1, outputs(cluster));
            ASSERT_TRUE(cluster.run_until([&] { return outputs(cluster) > before; }));
            cluster.step(MoveRequest{{1}});
            ASSERT_TRUE(cluster.run_until([&] { return cluster.ended.size() > i; }));
            ASSERT_EQ(cluster.ended[i].phase, MigrationPhase::committed)
                << i << ": " << cluster.ended[i].reason;
        }
        EXPECT_EQ(cluster.settle(), "");
        if (!moves) stayed = cluster.answers[1].choices;
        EXPECT_EQ(cluster.answers[1].choices, stayed);
        EXPECT_EQ(cluster.answers[1].choices[0].size(), 13 * kMoves);
    }
}

// What is left goes on, with the same tokens.
TEST(MigrationInCluster, AChoiceEndsAtAnyStep) {
    const Case what = cases()[1];
    const Text text = undisturbed(what);
    const std::size_t count = messages_of(what);
    for (const std::int32_t choice : {0, 2}) {
        for (std::size_t n = 0; n < count && !::testing::Test::HasFailure(); n += kSweepStride) {
            SCOPED_TRACE("choice " + std::to_string(choice) + " at message " + std::to_string(n));
            MovingCluster cluster(config_of(what));
            move_once(cluster, what, [&](std::size_t at) {
                if (at == n) {
                    cluster.after({}, [&] {
                        cluster.step(Ended{{1}, FinishReason::stop, choice});
                    });
                }
                return Fate::deliver;
            });
            EXPECT_EQ(cluster.settle(), "");
            for (const auto& [index, tokens] : text) {
                if (index == choice) continue;
                EXPECT_EQ(cluster.answers[1].choices[index], tokens);
            }
        }
    }
}

}  // namespace
}  // namespace helix::core::migration_cluster_test
