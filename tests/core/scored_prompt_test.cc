// Requests whose prompt's log-probabilities are asked for.

#include <gtest/gtest.h>

#include "core/scripted_cluster.h"
#include "core/worker_driver.h"

namespace helix::core::scored_prompt_test {
namespace {

CoordinatorConfig config() {
    CoordinatorConfig config;
    config.n_layers = 4;
    config.context_length = 512;
    config.block_size = 4;
    config.expected_output_tokens = 10;
    config.prefix_cache = true;
    return config;
}

const std::vector<Token> kPrompt = {11, 12, 13, 14, 15, 16, 17, 18, 19};

Request request(std::uint64_t id, bool score = true) {
    Request made;
    made.id = {id};
    made.prompt = kPrompt;
    made.max_tokens = 10;
    made.sampling.n_logprobs = 2;
    made.score_prompt = score;
    return made;
}

class ScoredPrompt : public ::testing::Test {
  protected:
    // The last stage of the running attempt sends the log-probabilities of these positions.
    ScriptedCluster::Actions score(std::uint64_t id, std::int32_t first, std::int32_t end,
                                   std::uint32_t older = 0) {
        const RequestState& state = cluster_.request(id);
        TokensProduced message;
        for (std::int32_t at = first; at < end; ++at) {
            const Token token = state.request.prompt[static_cast<std::size_t>(at)];
            message.scored.push_back({{{id}, state.attempt - older},
                                      at,
                                      token,
                                      -static_cast<float>(at),
                                      {{1, -1}, {2, -2}, {3, -3}}});
        }
        return cluster_.step(FromWorker{state.pipeline.back().worker, message});
    }
    static std::vector<std::int32_t> positions(const ScriptedCluster::Actions& actions) {
        std::vector<std::int32_t> all;
        for (const CoordinatorAction& action : actions) {
            if (const auto* scored = std::get_if<ScoreTokens>(&action)) {
                for (const ProducedToken& token : scored->tokens) all.push_back(token.position);
            }
        }
        return all;
    }
    using Positions = std::vector<std::int32_t>;

    ScriptedCluster cluster_{config(), 1, 2};
};

TEST_F(ScoredPrompt, EachPositionIsPassedOnOnceAndInOrder) {
    const auto rows = ScriptedCluster::rows(cluster_.step(Submitted{request(1)}));
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].start->scored, kPrompt);
    const auto actions = score(1, 1, 4);
    EXPECT_EQ(positions(actions), (Positions{1, 2, 3}));
    const auto said = find<ScoreTokens>(actions);
    EXPECT_EQ(said->tokens[1].logprob, -2);
    EXPECT_EQ(said->tokens[1].top.size(), 2U) << "no more than were asked for";
    EXPECT_EQ(positions(score(1, 2, 4)), Positions{}) << "they came twice";
    EXPECT_EQ(positions(score(1, 5, 7)), Positions{}) << "a gap";
    EXPECT_EQ(positions(score(1, 3, 9)), (Positions{4, 5, 6, 7, 8}));
    EXPECT_TRUE(find<StreamToken>(cluster_.tokens(1, {70})));
    EXPECT_EQ(positions(score(1, 1, 9)), Positions{});
}

TEST_F(ScoredPrompt, APreemptedOneGoesOnWhereItWas) {
    cluster_.step(Submitted{request(1, false)});
    cluster_.tokens(1, {70});
    cluster_.step(Submitted{request(2)});
    score(2, 1, 4);
    cluster_.stuck(2, StuckCause::out_of_pages);
    const auto again = ScriptedCluster::rows(cluster_.step(CoordinatorTick{}));
    ASSERT_EQ(again.size(), 1U);
    EXPECT_EQ(again[0].start->scored, kPrompt);
    EXPECT_EQ(positions(score(2, 4, 6, 1)), Positions{}) << "of the attempt that is over";
    EXPECT_EQ(positions(score(2, 1, 9)), (Positions{4, 5, 6, 7, 8}));
    cluster_.tokens(2, {70});
    // Once all are there, nothing is to be scored when it runs again.
    cluster_.wait(base::from_seconds(1));
    cluster_.stuck(2, StuckCause::out_of_pages);
    const auto third = ScriptedCluster::rows(cluster_.step(CoordinatorTick{}));
    ASSERT_EQ(third.size(), 1U);
    EXPECT_TRUE(third[0].start->scored.empty());
}

TEST_F(ScoredPrompt, NoRowOfItIsTakenFromThePrefixCache) {
    cluster_.step(Submitted{request(1)});
    score(1, 1, 9);
    cluster_.tokens(1, {70});
    const auto scored = ScriptedCluster::rows(cluster_.step(Submitted{request(2)}));
    ASSERT_EQ(scored.size(), 1U);
    EXPECT_TRUE(scored[0].start->cached.empty());
    EXPECT_EQ(scored[0].first_position, 0);
    const auto plain = ScriptedCluster::rows(cluster_.step(Submitted{request(3, false)}));
    ASSERT_EQ(plain.size(), 1U);
    EXPECT_EQ(plain[0].first_position, 8) << "what it computed serves others";
}

TEST_F(ScoredPrompt, WhereSomeWereLostAnotherAttemptGetsTheRestUntilThereWereTooMany) {
    for (const std::int32_t n : {1, 3}) {
        const auto id = static_cast<std::uint64_t>(n);
        Request asked = request(id);
        asked.n = n;
        cluster_.step(Submitted{asked});
        score(id, 1, 3);
        for (std::uint32_t attempt = 1; attempt <= 2; ++attempt) {
            auto actions = cluster_.first_tokens(id, n, 70);
            EXPECT_FALSE(find<StreamToken>(actions) || find<FinishRequest>(actions));
            const auto more = cluster_.step(CoordinatorTick{});
            actions.insert(actions.end(), more.begin(), more.end());
            const auto again = ScriptedCluster::rows(actions);
            ASSERT_EQ(again.size(), 1U);
            EXPECT_EQ(again[0].key.attempt, attempt + 1);
            EXPECT_EQ(again[0].start->scored, kPrompt);
        }
        EXPECT_EQ(positions(score(id, 1, 8)), (Positions{3, 4, 5, 6, 7}));
        const auto ended = find<FinishRequest>(cluster_.first_tokens(id, n, 70));
        ASSERT_TRUE(ended);
        EXPECT_EQ(ended->reason, FinishReason::error);
        EXPECT_EQ(ended->cause, FailureCause::unscored) << ended->error;
    }
}

TEST_F(ScoredPrompt, OfSeveralAnswersThePromptIsScoredOnce) {
    Request several = request(1);
    several.n = 3;
    const auto rows = ScriptedCluster::rows(cluster_.step(Submitted{several}));
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].draws, 3);
    EXPECT_EQ(positions(score(1, 1, 9)), (Positions{1, 2, 3, 4, 5, 6, 7, 8}));
    EXPECT_TRUE(find<StreamToken>(cluster_.first_tokens(1, 3, 70)));
}

StageInput scored_input(const WorkerDriver& worker, const std::vector<Token>& prompt) {
    RowTokens rows;
    rows = prompt;
    StageInput input = worker.start(WorkerDriver::key(1), std::move(rows));
    SequenceStart start = *input.start;
    start.scored = prompt;
    start.sampling.n_logprobs = 0;
    input.start = start;
    return input;
}

TEST(ScoredPromptWorker, EveryRowThatATokenOfThePromptFollowsIsScored) {
    WorkerConfig config = WorkerDriver::small();
    config.max_batch_rows = 3;
    WorkerDriver worker(50, 0, config);
    StageInput input = scored_input(worker, {1, 2, 3, 4, 5, 6, 7});
    // What a recomputed sequence has of its output is not scored.
    input.tokens.push_back(50);
    worker.say(StageInputs{{input}});
    std::vector<ProducedToken> scored;
    std::vector<std::vector<Token>> chunks;
    while (worker.plan().id != 0) {
        ASSERT_EQ(worker.plan().chunks.size(), 1U);
        chunks.push_back(worker.plan().chunks[0].scored);
        worker.finish();
        for (const TokensProduced& said : worker.said<TokensProduced>())
            scored.insert(scored.end(), said.scored.begin(), said.scored.end());
    }
    EXPECT_EQ(chunks, (std::vector<std::vector<Token>>{{2, 3, 4}, {5, 6, 7}, {}}));
    ASSERT_EQ(scored.size(), 6U);
    for (std::size_t i = 0; i < 6; ++i) {
        EXPECT_EQ(scored[i].position, static_cast<std::int32_t>(i) + 1);
        EXPECT_EQ(scored[i].key, WorkerDriver::key(1));
    }
}

TEST(ScoredPromptWorker, OnePieceThatCannotBeScoredEndsTheSequence) {
    WorkerConfig config = WorkerDriver::small();
    config.max_batch_rows = 3;
    WorkerDriver worker(50, 0, config);
    worker.say(StageInputs{{scored_input(worker, {1, 2, 3, 4, 5, 6, 7})}});
    ASSERT_EQ(worker.plan().chunks.size(), 1U);
    BatchFinished finished{worker.plan().id, {}, {}, {{WorkerDriver::key(1), "a broken logit"}}};
    finished.scored.resize(3);
    worker.step(finished);
    EXPECT_TRUE(worker.said<TokensProduced>().empty());
    ASSERT_EQ(worker.stuck().size(), 1U);
    EXPECT_EQ(worker.stuck()[0].cause, StuckCause::failed);
    EXPECT_NE(worker.stuck()[0].reason.find("a broken logit"), std::string::npos);
    EXPECT_EQ(find<RunBatch>(worker.actions()), std::nullopt);
    EXPECT_EQ(worker.report().used_pages, 0);
}

}  // namespace
}  // namespace helix::core::scored_prompt_test
