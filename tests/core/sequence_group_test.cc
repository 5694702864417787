#include "core/coordinator/sequence_group.h"
#include "base/effort.h"

#include "core/plain_workers.h"

namespace helix::core::sequence_group_test {
namespace {

Request request_of(std::uint64_t id, std::int32_t n, std::int32_t max_tokens) {
    Request request;
    request.id = {id};
    for (Token token = 0; token < 6; ++token) {
        request.prompt.push_back(token + static_cast<Token>(id));
    }
    request.n = n;
    request.max_tokens = max_tokens;
    request.stop_tokens = {11};
    return request;
}

// What each choice must be, computed without a coordinator.
std::vector<Token> plain_choice(const PlainModel& model, const Request& request,
                                std::uint32_t choice) {
    std::vector<Token> tokens = request.prompt;
    std::vector<Token> output;
    while (static_cast<std::int32_t>(output.size()) < request.max_tokens) {
        output.push_back(model.draw(tokens, choice));
        tokens.push_back(output.back());
        const bool stop = std::find(request.stop_tokens.begin(), request.stop_tokens.end(),
                                    output.back()) != request.stop_tokens.end();
        if (stop && static_cast<std::int32_t>(output.size()) > request.min_tokens) break;
    }
    return output;
}

void expect_choices(const PlainCluster& cluster, const Request& request) {
    const auto found = cluster.answers.find(request.id.value);
    ASSERT_NE(found, cluster.answers.end());
    const PlainCluster::Answer& answer = found->second;
    ASSERT_TRUE(answer.finish) << "request " << request.id.value;
    EXPECT_EQ(answer.finish->error, "");
    for (std::int32_t i = 0; i < request.n; ++i) {
        const auto right = plain_choice(cluster.model, request, static_cast<std::uint32_t>(i));
        const auto choice = answer.choices.find(i);
        ASSERT_NE(choice, answer.choices.end());
        EXPECT_EQ(choice->second.tokens, right) << "choice " << i;
        if (request.n == 1) continue;
        EXPECT_EQ(choice->second.reason,
                  right.back() == 11 && static_cast<std::int32_t>(right.size()) > request.min_tokens
                      ? FinishReason::stop
                      : FinishReason::length);
    }
}

TEST(SequenceGroup, ThePromptGoesOnceAndChoicesAreForkedFromIt) {
    PlainCluster cluster(1, Preemption::automatic);
    const Request request = request_of(1, 3, 10);
    cluster.step(Submitted{request});
    cluster.run();
    EXPECT_EQ(cluster.broken, "");
    expect_choices(cluster, request);
    const auto& first = std::get<StageInputs>(cluster.sent.at(0)).inputs;
    ASSERT_EQ(first.size(), 1U);
    EXPECT_EQ(first[0].draws, 3);
    EXPECT_EQ(first[0].tokens.size(), 6U);
    const ForkSequences fork{{{1}, 1, 0}, 6, {1, 2}};
    EXPECT_EQ(std::get<ForkSequences>(cluster.sent.at(1)), fork) << "to both stages";
    EXPECT_EQ(std::get<ForkSequences>(cluster.sent.at(2)), fork);
    EXPECT_EQ(cluster.answers[1].attempts, 1);
    EXPECT_EQ(cluster.held(), 0U);
    EXPECT_EQ(held_when_idle(cluster.coordinator()), "");
}

TEST(SequenceGroup, ASingleSequenceHasNoGroup) {
    PlainCluster cluster(1, Preemption::automatic);
    cluster.step(Submitted{request_of(1, 1, 4)});
    cluster.run();
    expect_choices(cluster, request_of(1, 1, 4));
    EXPECT_FALSE(cluster.answers[1].choices[0].reason) << "FinishChoice is for groups";
    for (const WorkerMessage& message : cluster.sent) {
        EXPECT_FALSE(std::holds_alternative<ForkSequences>(message));
    }
}

TEST(SequenceGroup, AChoiceEndedByTheCallerIsFreedAndTheOthersGoOn) {
    PlainCluster cluster(3, Preemption::automatic);
    Request request = request_of(1, 3, 12);
    request.stop_tokens.clear();
    cluster.step(Submitted{request});
    while (cluster.answers[1].choices[1].tokens.size() < 3) ASSERT_TRUE(cluster.deliver());
    cluster.step(Ended{{1}, FinishReason::stop, 1});
    EXPECT_EQ(cluster.answers[1].choices[1].reason, FinishReason::stop);
    cluster.step(Ended{{1}, FinishReason::stop, 1});  // it has ended: nothing happens
    cluster.run();
    EXPECT_EQ(cluster.broken, "");
    EXPECT_EQ(cluster.answers[1].choices[1].tokens.size(), 3U);
    EXPECT_EQ(cluster.answers[1].choices[0].tokens, plain_choice(cluster.model, request, 0));
    EXPECT_EQ(cluster.answers[1].choices[2].tokens, plain_choice(cluster.model, request, 2));
    EXPECT_TRUE(cluster.answers[1].finish);
    EXPECT_EQ(cluster.held(), 0U);
}

TEST(SequenceGroup, WhenEveryChoiceIsEndedTheRequestIs) {
    PlainCluster cluster(3, Preemption::automatic);
    cluster.step(Submitted{request_of(1, 2, 12)});
    cluster.step(Ended{{1}, FinishReason::stop, 0});  // before its prompt was computed
    EXPECT_FALSE(cluster.answers[1].finish);
    cluster.step(Ended{{1}, FinishReason::stop, 1});
    EXPECT_TRUE(cluster.answers[1].finish);
    cluster.run();
    EXPECT_EQ(cluster.broken, "");
    EXPECT_EQ(cluster.held(), 0U);
}

TEST(SequenceGroup, OneThatCanNeverFitIsRefusedWithTheReason) {
    PlainCluster cluster(1, Preemption::automatic, 200);  // 100 blocks of 4 tokens
    Request request = request_of(1, 8, 100);              // 1 + 8 * 26 blocks
    cluster.step(Submitted{request});
    ASSERT_TRUE(cluster.answers[1].rejection);
    EXPECT_EQ(cluster.answers[1].rejection->reason, RejectReason::never_fits);
    EXPECT_NE(cluster.answers[1].rejection->message.find("8 answers of up to 100 tokens"),
              std::string::npos);
    request.id = {2};
    request.max_tokens = 0;  // as much as there is room for
    cluster.step(Submitted{request});
    cluster.run();
    EXPECT_EQ(cluster.broken, "");
    EXPECT_FALSE(cluster.answers[2].rejection);
    request.max_tokens = 46;  // 1 + 8 * 12 = 97 blocks; 47 tokens would take 105
    expect_choices(cluster, [&] {
        Request expected = request;
        expected.id = {2};
        return expected;
    }());
}

// The prompt's blocks count once: 20 prompt blocks and 4 answers of 5 blocks are 40.
TEST(SequenceGroup, TheEstimateCountsThePromptOnce) {
    PlainCluster cluster(1, Preemption::automatic);
    Request request = request_of(1, 4, 20);
    request.prompt.assign(80, 3);
    cluster.step(Submitted{request});
    const ClusterView view = cluster.coordinator().view();
    EXPECT_EQ(view.workers[0].estimated_pages, 2 * (20 + 4 * 2)) << "5 tokens are expected of each";
}

TEST(SequenceGroup, AWorkerThatIsLostSendsTheWholeRequestBackToTheQueue) {
    PlainCluster cluster(1, Preemption::automatic);
    cluster.step(Submitted{request_of(1, 3, 40)});
    for (int i = 0; i < 20; ++i) cluster.deliver();
    cluster.step(WorkerLost{{1}, "died"});
    EXPECT_FALSE(cluster.answers[1].finish);
    EXPECT_EQ(cluster.coordinator().view().waiting, 1);
    EXPECT_EQ(cluster.broken, "");
}

// ---- beams
// ----------------------------------------------------------------------------------------

Request beam_request(std::uint64_t id, std::int32_t n, std::int32_t width,
                     std::int32_t max_tokens) {
    Request request = request_of(id, n, max_tokens);
    request.beam = BeamSearch{width, 1, EarlyStopping::no};
    request.stop_tokens = {3};
    return request;
}

// The search by itself, with the model asked for each beam's whole text.
std::vector<Beams::Finished> plain_beams(const PlainModel& model, const Request& request) {
    BeamLimits limits{static_cast<std::int32_t>(request.prompt.size()), request.max_tokens,
                      request.min_tokens, request.stop_tokens, -1};
    Beams beams(*request.beam, limits);
    while (!beams.over()) {
        std::vector<std::vector<spec::TokenLogprob>> likely;
        for (std::size_t i = 0; i < beams.running(); ++i) {
            std::vector<Token> tokens = request.prompt;
            const auto output = beams.tokens(i);
            tokens.insert(tokens.end(), output.begin(), output.end());
            likely.push_back(model.top(tokens));
        }
        beams.advance(likely);
    }
    return beams.best(static_cast<std::size_t>(request.n));
}

void expect_beams(const PlainCluster& cluster, const Request& request) {
    const auto found = cluster.answers.find(request.id.value);
    ASSERT_NE(found, cluster.answers.end());
    ASSERT_TRUE(found->second.finish) << "request " << request.id.value;
    EXPECT_EQ(found->second.finish->error, "");
    const auto right = plain_beams(cluster.model, request);
    ASSERT_EQ(right.size(), static_cast<std::size_t>(request.n));
    for (std::int32_t i = 0; i < request.n; ++i) {
        const Beams::Finished& one = right[static_cast<std::size_t>(i)];
        const auto choice = found->second.choices.find(i);
        ASSERT_NE(choice, found->second.choices.end());
        std::vector<Token> tokens;
        for (const Beams::Step& step : one.steps) tokens.push_back(step.token);
        EXPECT_EQ(choice->second.tokens, tokens) << "beam " << i;
        EXPECT_EQ(choice->second.reason, one.reason);
        for (std::size_t k = 0; k < one.steps.size(); ++k) {
            EXPECT_EQ(choice->second.produced[k].logprob, one.steps[k].logprob);
        }
    }
}

TEST(SequenceGroup, BeamsAreForkedAndFreedAsTheSearchGoes) {
    PlainCluster cluster(1, Preemption::automatic);
    const Request request = beam_request(1, 2, 4, 12);
    cluster.step(Submitted{request});
    cluster.run();
    EXPECT_EQ(cluster.broken, "");
    expect_beams(cluster, request);
    const auto& first = std::get<StageInputs>(cluster.sent.at(0)).inputs.at(0);
    EXPECT_EQ(first.draws, 1);
    EXPECT_EQ(first.start->sampling.n_logprobs, 8);
    std::size_t forks = 0;
    for (const WorkerMessage& message : cluster.sent) {
        forks += std::holds_alternative<ForkSequences>(message) ? 1U : 0U;
    }
    EXPECT_GT(forks, 2U);
    EXPECT_EQ(cluster.held(), 0U);
    EXPECT_EQ(held_when_idle(cluster.coordinator()), "");
}

// ---- preemption
// -----------------------------------------------------------------------------------

bool swapped_out(const PlainCluster& cluster) {
    return std::any_of(cluster.sent.begin(), cluster.sent.end(), [](const WorkerMessage& message) {
        const auto* swap = std::get_if<SwapSequences>(&message);
        return swap != nullptr && swap->out;
    });
}

// Two groups run; the later one is stuck in its middle, and finds room again when the first is
// done.
void preempt_in_the_middle(PlainCluster& cluster, Request first, const Request& second) {
    first.stop_tokens.clear();
    cluster.step(Submitted{first});
    cluster.step(Submitted{second});
    for (int i = 0; i < 60; ++i) ASSERT_TRUE(cluster.deliver());
    WorkerReport full;
    full.used_pages = full.total_pages = 4000;
    cluster.step(FromWorker{{1}, full});
    cluster.stuck({second.id, 1, 0});
    EXPECT_EQ(cluster.coordinator().view().preemptions, 1);
}

TEST(SequenceGroup, AGroupIsSwappedAndASingleSequenceRecomputed) {
    PlainCluster cluster(5, Preemption::automatic);
    Request second = request_of(2, 3, 30);
    second.stop_tokens.clear();
    preempt_in_the_middle(cluster, request_of(1, 1, 40), second);
    EXPECT_TRUE(swapped_out(cluster));
    EXPECT_EQ(cluster.coordinator().view().swapped, 1);
    cluster.run();
    EXPECT_EQ(cluster.broken, "");
    EXPECT_EQ(cluster.answers[2].attempts, 1) << "it went on where it was";
    expect_choices(cluster, second);
    EXPECT_EQ(cluster.held(), 0U);

    PlainCluster single(5, Preemption::automatic);
    Request lone = request_of(2, 1, 30);
    lone.stop_tokens.clear();
    preempt_in_the_middle(single, request_of(1, 2, 40), lone);
    EXPECT_FALSE(swapped_out(single));
    single.run();
    EXPECT_EQ(single.broken, "");
    EXPECT_EQ(single.answers[2].attempts, 2);
    expect_choices(single, lone);
}

TEST(SequenceGroup, TheModeCanBeChosen) {
    Request second = request_of(2, 3, 30);
    second.stop_tokens.clear();
    PlainCluster recompute(5, Preemption::recompute);
    preempt_in_the_middle(recompute, request_of(1, 1, 40), second);
    EXPECT_FALSE(swapped_out(recompute));
    recompute.run();
    EXPECT_EQ(recompute.broken, "");
    EXPECT_EQ(recompute.answers[2].attempts, 2);
    expect_choices(recompute, second);

    PlainCluster swap(5, Preemption::swap);
    Request lone = request_of(2, 1, 30);
    lone.stop_tokens.clear();
    preempt_in_the_middle(swap, request_of(1, 1, 40), lone);
    EXPECT_TRUE(swapped_out(swap));
    swap.run();
    EXPECT_EQ(swap.broken, "");
    EXPECT_EQ(swap.answers[2].attempts, 1);
    expect_choices(swap, lone);
}

TEST(SequenceGroup, WithoutSwapSpaceAGroupRecomputes) {
    Request second = request_of(2, 3, 30);
    second.stop_tokens.clear();
    PlainCluster none(5, Preemption::automatic, 4000, 8);
    preempt_in_the_middle(none, request_of(1, 1, 40), second);
    EXPECT_FALSE(swapped_out(none));
    none.run();
    expect_choices(none, second);

    PlainCluster full(5, Preemption::automatic);  // but the second stage has less than it said
    full.workers[1].swap_failures = 1;
    preempt_in_the_middle(full, request_of(1, 1, 40), second);
    EXPECT_TRUE(swapped_out(full));
    full.run();
    EXPECT_EQ(full.broken, "");
    EXPECT_EQ(full.answers[2].attempts, 2);
    expect_choices(full, second);
    EXPECT_EQ(full.held(), 0U);
}

TEST(SequenceGroup, TheSwappedComeBackBeforeAnyOfTheWaitingStarts) {
    PlainCluster cluster(5, Preemption::swap);
    Request first = request_of(1, 1, 30);
    Request second = request_of(2, 1, 30);
    first.stop_tokens.clear();
    second.stop_tokens.clear();
    preempt_in_the_middle(cluster, first, second);
    const Request third = request_of(3, 1, 4);
    cluster.step(Submitted{third});
    EXPECT_EQ(cluster.coordinator().view().swapped, 1);
    EXPECT_EQ(cluster.coordinator().view().waiting, 1) << "though it is small";
    EXPECT_FALSE(cluster.answers[3].rejection);
    cluster.run();
    EXPECT_EQ(cluster.broken, "");
    expect_choices(cluster, first);
    expect_choices(cluster, second);
    expect_choices(cluster, third);
}

TEST(SequenceGroup, AbortFreesEverythingInEveryState) {
    for (const Preemption mode : {Preemption::recompute, Preemption::swap}) {
        for (int after = 0; after < 120; ++after) {
            PlainCluster cluster(7, mode);
            cluster.step(Submitted{request_of(1, 2, 20)});
            cluster.step(Submitted{beam_request(2, 2, 3, 20)});
            cluster.step(Submitted{request_of(3, 3, 20)});
            for (int i = 0; i < after; ++i) {
                if (i == 40) cluster.stuck({{3}, 1, 0});
                if (i == 60) cluster.stuck({{2}, 1, 0});
                cluster.deliver();
            }
            for (std::uint64_t id = 1; id <= 3; ++id) {
                cluster.step(Ended{{id}, FinishReason::cancelled});
            }
            cluster.run();
            ASSERT_EQ(cluster.broken, "") << "after " << after;
            ASSERT_EQ(cluster.held(), 0U) << "after " << after;
            ASSERT_EQ(held_when_idle(cluster.coordinator()), "") << "after " << after;
        }
    }
}

// Requests of all kinds, preempted again and again: every answer is the one of an idle cluster.
TEST(SequenceGroup, PreemptionNeverChangesAnAnswer) {
    std::int64_t preemptions = 0;
    std::int64_t swaps = 0;
    for (std::uint64_t seed = 1; seed <= (kSanitized ? 20 : 300); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        base::Random random(seed);
        const auto mode = static_cast<Preemption>(random.below(3));
        PlainCluster cluster(seed, mode, 4000, random.chance(0.3) ? 100 : 4000);
        std::vector<Request> requests;
        const auto submit = [&] {
            const std::uint64_t id = requests.size() + 1;
            const auto most = static_cast<std::int32_t>(1 + random.below(20));
            const auto n = static_cast<std::int32_t>(1 + random.below(4));
            Request next = request_of(id, n, most);
            if (random.chance(0.4)) {
                next = beam_request(id, n, n + static_cast<std::int32_t>(random.below(3)), most);
                next.beam->early_stopping = static_cast<EarlyStopping>(random.below(3));
            }
            next.min_tokens = static_cast<std::int32_t>(random.below(3));
            next.priority = static_cast<std::int32_t>(random.below(2));
            cluster.step(Submitted{next});
            requests.push_back(next);
        };
        for (int i = 0; i < 400 && cluster.broken.empty(); ++i) {
            if (requests.size() < 6 && random.chance(0.05)) submit();
            if (random.chance(0.03)) {
                std::vector<SequenceKey> keys;
                for (const auto& [key, sequence] : cluster.workers[0].held) keys.push_back(key);
                if (!keys.empty()) cluster.stuck(keys[random.below(keys.size())]);
            }
            if (random.chance(0.02)) cluster.workers[random.below(2)].swap_failures = 1;
            if (!cluster.deliver()) cluster.step(CoordinatorTick{});
        }
        cluster.run();
        ASSERT_EQ(cluster.broken, "");
        for (const Request& request : requests) {
            if (request.beam) {
                expect_beams(cluster, request);
            } else {
                expect_choices(cluster, request);
            }
        }
        ASSERT_EQ(cluster.held(), 0U);
        ASSERT_EQ(held_when_idle(cluster.coordinator()), "");
        ASSERT_FALSE(::testing::Test::HasFailure());
        preemptions += cluster.coordinator().view().preemptions;
        swaps += swapped_out(cluster) ? 1 : 0;
    }
    EXPECT_GT(preemptions, kSanitized ? 15 : 300);
    EXPECT_GT(swaps, kSanitized ? 1 : 50);
}

}  // namespace
}  // namespace helix::core::sequence_group_test
