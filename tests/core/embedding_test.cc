// Requests that are answered with their prompt's embedding.

#include <gtest/gtest.h>

#include <limits>

#include "core/scripted_cluster.h"
#include "core/worker_driver.h"

namespace helix::core::embedding_test {
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

Request request(std::uint64_t id, spec::Pooling pooling = spec::Pooling::mean) {
    Request made;
    made.id = {id};
    made.prompt = kPrompt;
    made.max_tokens = 1;
    made.pooling = pooling;
    return made;
}

class Embedding : public ::testing::Test {
  protected:
    TokensProduced answer(std::uint64_t id, std::vector<float> values,
                          std::uint32_t older = 0) const {
        TokensProduced message;
        message.embeddings.push_back(
            {{{id}, cluster_.request(id).attempt - older}, std::move(values)});
        return message;
    }
    WorkerId last_stage(std::uint64_t id) const {
        return cluster_.request(id).pipeline.back().worker;
    }
    ScriptedCluster::Actions say(std::uint64_t id, const TokensProduced& message) {
        return cluster_.step(FromWorker{last_stage(id), message});
    }

    ScriptedCluster cluster_{config(), 1, 2};
};

TEST_F(Embedding, EndsItsRequestAndFreesItsPages) {
    const auto rows = ScriptedCluster::rows(cluster_.step(Submitted{request(1)}));
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].start->pooling, spec::Pooling::mean);
    EXPECT_TRUE(rows[0].sample);
    const auto actions = say(1, answer(1, {0.6F, 0.8F}));
    const auto embedded = find<EmbedPrompt>(actions);
    ASSERT_TRUE(embedded);
    EXPECT_EQ(embedded->id.value, 1U);
    EXPECT_EQ(embedded->values, (std::vector<float>{0.6F, 0.8F}));
    const auto finish = find<FinishRequest>(actions);
    ASSERT_TRUE(finish);
    EXPECT_EQ(finish->reason, FinishReason::stop);
    EXPECT_FALSE(find<StreamToken>(actions));
    EXPECT_FALSE(cluster_.open(1));
}

TEST_F(Embedding, OfAnAttemptThatIsOverIsIgnoredAndItIsComputedAgain) {
    cluster_.step(Submitted{request(1)});
    const WorkerId last = last_stage(1);
    const TokensProduced late = answer(1, {1.0F});
    cluster_.stuck(1, StuckCause::prefix_lost);  // nothing was cached: the worker is cut off
    EXPECT_FALSE(find<EmbedPrompt>(cluster_.step(FromWorker{last, late})));
    EXPECT_TRUE(cluster_.open(1));
}

TEST_F(Embedding, APreemptedOneBeginsAnew) {
    cluster_.step(Submitted{request(1)});
    Request other = request(2, spec::Pooling::none);
    other.max_tokens = 20;
    cluster_.step(Submitted{other});
    cluster_.wait(base::from_seconds(1));
    cluster_.stuck(2, StuckCause::out_of_pages);
    cluster_.stuck(1, StuckCause::out_of_pages);
    cluster_.wait(base::from_seconds(1));
    cluster_.step(CoordinatorTick{});
    ASSERT_TRUE(cluster_.open(1));
    if (cluster_.request(1).attempt > 1) {
        EXPECT_FALSE(find<EmbedPrompt>(say(1, answer(1, {1.0F}, 1)))) << "of the attempt before";
    }
    EXPECT_TRUE(find<EmbedPrompt>(say(1, answer(1, {1.0F}))));
}

TEST_F(Embedding, OnlyTheLastTokensMayBeginBehindWhatIsCached) {
    Request plain = request(1, spec::Pooling::none);
    plain.max_tokens = 5;
    cluster_.step(Submitted{plain});
    cluster_.tokens(1, {70});
    std::uint64_t id = 2;
    for (const auto& [pooling, first] : {std::pair{spec::Pooling::mean, 0},
                                         {spec::Pooling::cls, 0},
                                         {spec::Pooling::last, 8},
                                         {spec::Pooling::rank, 8}}) {
        const auto rows = ScriptedCluster::rows(cluster_.step(Submitted{request(id++, pooling)}));
        ASSERT_EQ(rows.size(), 1U);
        EXPECT_EQ(rows[0].first_position, first) << spec::to_string(pooling);
    }
}

TEST_F(Embedding, WhatItComputedServesOthers) {
    cluster_.step(Submitted{request(1)});
    say(1, answer(1, {1.0F}));
    const auto rows =
        ScriptedCluster::rows(cluster_.step(Submitted{request(2, spec::Pooling::none)}));
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].first_position, 8);
}

TEST_F(Embedding, AnswersThatCannotBeEndTheSession) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    struct Lie {
        spec::Pooling wanted;
        TokensProduced said;
        const char* words;
    };
    const SequenceKey key{{1}, 1};
    const std::vector<Lie> lies = {
        {spec::Pooling::mean, {{{key, 9, 7, 0, {}}}}, "where an embedding is wanted"},
        {spec::Pooling::none, {{}, {}, {{key, {1}}}}, "that nobody asked it for"},
        {spec::Pooling::mean, {{}, {}, {{{{1}, 1, 1}, {1}}}}, "that nobody asked it for"},
        {spec::Pooling::mean, {{}, {}, {{key, {}}}}, "that is none"},
        {spec::Pooling::mean, {{}, {}, {{key, {1, nan}}}}, "that is none"},
        {spec::Pooling::rank, {{}, {}, {{key, {0.5F, 0.5F}}}}, "a score that is none"},
        {spec::Pooling::rank, {{}, {}, {{key, {-0.1F}}}}, "a score that is none"},
        {spec::Pooling::rank, {{}, {}, {{key, {1.1F}}}}, "a score that is none"}};
    for (const Lie& lie : lies) {
        ScriptedCluster cluster(config(), 1, 2);
        cluster.step(Submitted{request(1, lie.wanted)});
        const WorkerId last = cluster.request(1).pipeline.back().worker;
        const auto actions = cluster.step(FromWorker{last, lie.said});
        const auto cut = find<CutOffWorker>(actions);
        ASSERT_TRUE(cut) << lie.words;
        EXPECT_NE(cut->reason.find(lie.words), std::string::npos) << cut->reason;
        EXPECT_FALSE(find<EmbedPrompt>(actions));
    }
    cluster_.step(Submitted{request(1)});
    const WorkerId first = cluster_.request(1).pipeline.front().worker;
    EXPECT_TRUE(find<CutOffWorker>(cluster_.step(FromWorker{first, answer(1, {1.0F})})));
}

StageInput pooled_input(const WorkerDriver& worker, RowTokens prompt) {
    StageInput input = worker.start(WorkerDriver::key(1), std::move(prompt));
    SequenceStart start = *input.start;
    start.pooling = spec::Pooling::mean;
    input.start = std::move(start);
    return input;
}

TEST(EmbeddingWorker, EachChunkGoesOnFromWhatWasPooledBeforeIt) {
    WorkerConfig config = WorkerDriver::small();
    config.max_batch_rows = 3;
    WorkerDriver worker(50, 0, config);
    worker.say(StageInputs{{pooled_input(worker, {1, 2, 3, 4, 5, 6, 7})}});
    std::vector<std::vector<double>> before;
    std::vector<PromptEmbedding> said;
    while (worker.plan().id != 0) {
        ASSERT_EQ(worker.plan().chunks.size(), 1U);
        const BatchChunk chunk = worker.plan().chunks[0];
        EXPECT_EQ(chunk.pooling, spec::Pooling::mean);
        before.push_back(chunk.pooled);
        BatchFinished finished{worker.plan().id, {}, {}};
        const auto rows =
            static_cast<double>(chunk.first_position) + static_cast<double>(chunk.tokens.size());
        finished.pooled.push_back(chunk.sample ? PooledRows{{}, {0.5F}} : PooledRows{{rows}, {}});
        worker.end(finished);
        for (const TokensProduced& one : worker.said<TokensProduced>()) {
            EXPECT_TRUE(one.tokens.empty());
            said.insert(said.end(), one.embeddings.begin(), one.embeddings.end());
        }
    }
    EXPECT_EQ(before, (std::vector<std::vector<double>>{{}, {3}, {6}}));
    ASSERT_EQ(said.size(), 1U);
    EXPECT_EQ(said[0], (PromptEmbedding{WorkerDriver::key(1), {0.5F}}));
}

TEST(EmbeddingWorker, OneThatCannotBePooledEndsTheSequence) {
    WorkerDriver worker(50);
    worker.say(StageInputs{{pooled_input(worker, {1, 2, 3})}});
    BatchFinished finished{worker.plan().id, {}, {}, {{WorkerDriver::key(1), "no direction"}}};
    finished.pooled.resize(1);
    worker.step(finished);
    EXPECT_TRUE(worker.said<TokensProduced>().empty());
    ASSERT_EQ(worker.stuck().size(), 1U);
    EXPECT_NE(worker.stuck()[0].reason.find("no direction"), std::string::npos);
    EXPECT_EQ(worker.report().used_pages, 0);
}

TEST(EmbeddingWorker, SharesABatchWithOthersThatDraw) {
    WorkerDriver worker(50);
    StageInput drawing = worker.start(WorkerDriver::key(2), {5, 6});
    worker.say(StageInputs{{pooled_input(worker, {1, 2, 3})}});
    BatchFinished first{worker.plan().id, {}, {}};
    first.pooled.push_back({{}, {1.0F}});
    worker.say(StageInputs{{drawing, [&] {
                                StageInput again = pooled_input(worker, {1, 2, 3});
                                again.key = WorkerDriver::key(3);
                                return again;
                            }()}});
    worker.end(first);
    ASSERT_EQ(worker.plan().chunks.size(), 2U);
    BatchFinished both{worker.plan().id, {{WorkerDriver::key(2), 2, 7, 0, {}}}, {}};
    both.pooled.push_back({{}, {-1.0F}});
    worker.end(both);
    const auto said = worker.said<TokensProduced>();
    ASSERT_EQ(said.size(), 1U);
    ASSERT_EQ(said[0].tokens.size(), 1U);
    EXPECT_EQ(said[0].tokens[0].key, WorkerDriver::key(2));
    ASSERT_EQ(said[0].embeddings.size(), 1U);
    EXPECT_EQ(said[0].embeddings[0], (PromptEmbedding{WorkerDriver::key(3), {-1.0F}}));
}

}  // namespace
}  // namespace helix::core::embedding_test
