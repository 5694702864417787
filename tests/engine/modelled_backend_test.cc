#include "engine/modelled/modelled_backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "served_worker.h"

namespace helix::engine::modelled_backend_test {
namespace {

constexpr std::int32_t kLayers = 6;
constexpr std::int32_t kBlock = 4;

// A second for each row of a layer.
class RowCost final : public spec::CostModel {
  public:
    double layer_s(const spec::NodeSpec&, std::int32_t decodes,
                   std::int32_t prefill) const override {
        return decodes + prefill;
    }
};

ModelledOptions options(double time_scale = 0) {
    ModelledOptions o;
    o.cost = std::make_shared<RowCost>();
    o.model.n_layers = kLayers;
    o.model.layer_bytes = 1000;
    o.model.embedding_bytes = 50;
    o.model.head_bytes = 70;
    o.model.kv_bytes_per_token_layer = 10;
    o.hidden_size = 12;
    o.vocab_size = 500;
    o.block_size = kBlock;
    o.memory_bytes = 100'000;
    o.time_scale = time_scale;
    return o;
}

std::unique_ptr<ModelledBackend> make(spec::LayerRange layers, ModelledOptions o = options()) {
    auto backend = ModelledBackend::create(std::move(o));
    EXPECT_TRUE(backend.ok()) << backend.error().message;
    EXPECT_TRUE((*backend)->load(layers).ok());
    return std::move(*backend);
}

core::BatchChunk chunk_of(spec::LayerRange layers, std::int32_t first,
                          std::vector<spec::Token> tokens, std::uint32_t first_page = 0) {
    core::BatchChunk chunk;
    chunk.key.request = core::RequestId{9};
    chunk.layers = layers;
    chunk.first_position = first;
    const auto rows = static_cast<std::uint32_t>(tokens.size());
    chunk.tokens = std::move(tokens);
    if (layers.begin > 0) chunk.input = {1, 0, rows};
    chunk.sample = layers.end == kLayers;
    chunk.sampling.temperature = 0;
    if (!chunk.sample) chunk.output_row = 0;
    for (std::int32_t i = 0; i < layers.size() * 5;
         ++i) {  // 5 blocks of 4 positions for each layer
        chunk.pages.push_back(first_page + static_cast<std::uint32_t>(i));
    }
    return chunk;
}

base::Result<BatchResult> run(ModelledBackend& backend, core::BatchChunk chunk,
                              const std::vector<float>& rows = {}) {
    core::BatchPlan plan;
    plan.id = core::kFirstBatch;
    if (chunk.output_row >= 0) plan.output_rows = static_cast<std::int32_t>(chunk.tokens.size());
    plan.chunks.push_back(std::move(chunk));
    return backend.run(plan, [&](const core::PayloadRef&) { return std::span<const float>(rows); });
}

spec::Token expected(const std::vector<spec::Token>& tokens) {
    spec::SamplingParams sampling;
    sampling.temperature = 0;
    return modelled_next_token(tokens, kLayers, 500, sampling);
}

TEST(ModelledBackend, TheTextIsTheSameHoweverThePromptAndTheLayersAreCut) {
    const std::vector<spec::Token> prompt{3, 1, 4, 1, 5};
    auto whole = make({0, kLayers});
    const auto at_once = run(*whole, chunk_of({0, kLayers}, 0, prompt));
    ASSERT_TRUE(at_once.ok()) << at_once.error().message;
    EXPECT_EQ(at_once->tokens.at(0).token, expected(prompt));
    EXPECT_EQ(at_once->tokens.at(0).position, 5);

    auto first = make({0, 2});
    auto last = make({2, kLayers});
    spec::Token token = -1;
    for (std::int32_t i = 0; i < 5; ++i) {
        const auto half = run(*first, chunk_of({0, 2}, i, {prompt[static_cast<std::size_t>(i)]}));
        ASSERT_TRUE(half.ok()) << half.error().message;
        const auto rest = run(
            *last, chunk_of({2, kLayers}, i, {prompt[static_cast<std::size_t>(i)]}), half->output);
        ASSERT_TRUE(rest.ok()) << rest.error().message;
        token = rest->tokens.at(0).token;
    }
    EXPECT_EQ(token, expected(prompt));
    EXPECT_NE(expected({3, 1, 4, 1, 5}), expected({3, 2, 4, 1, 5}));
}

TEST(ModelledBackend, RowsOfAnotherStageOrPositionAreRefused) {
    auto first = make({0, 2});
    auto last = make({3, kLayers});
    const auto half = run(*first, chunk_of({0, 2}, 0, {7}));
    ASSERT_TRUE(half.ok());
    EXPECT_FALSE(run(*last, chunk_of({3, kLayers}, 0, {7}), half->output).ok());  // skips layer 2
    auto right = make({2, kLayers});
    EXPECT_FALSE(run(*right, chunk_of({2, kLayers}, 0, {8}), half->output).ok());
    EXPECT_FALSE(run(*right, chunk_of({2, kLayers}, 1, {7}), half->output).ok());
    EXPECT_FALSE(run(*right, chunk_of({2, kLayers}, 0, {7}), std::vector<float>(12, 0.5F)).ok());
    EXPECT_TRUE(run(*right, chunk_of({2, kLayers}, 0, {7}), half->output).ok());
}

TEST(ModelledBackend, PagesOfAnotherSequenceGiveAnotherTextAndUnwrittenOnesAnError) {
    auto backend = make({0, kLayers});
    ASSERT_TRUE(run(*backend, chunk_of({0, kLayers}, 0, {1, 2, 3})).ok());
    ASSERT_TRUE(run(*backend, chunk_of({0, kLayers}, 0, {9, 9, 9}, 30)).ok());
    const auto right = run(*backend, chunk_of({0, kLayers}, 3, {4}));
    const auto wrong = run(*backend, chunk_of({0, kLayers}, 3, {4}, 30));
    ASSERT_TRUE(right.ok() && wrong.ok());
    EXPECT_EQ(right->tokens.at(0).token, expected({1, 2, 3, 4}));
    EXPECT_NE(wrong->tokens.at(0).token, right->tokens.at(0).token);
    EXPECT_FALSE(run(*backend, chunk_of({0, kLayers}, 3, {4}, 60)).ok());
}

TEST(ModelledBackend, PagesThatMovedGoOnAsTheSameText) {
    auto from = make({0, kLayers});
    auto to = make({0, kLayers});
    ASSERT_TRUE(run(*from, chunk_of({0, kLayers}, 0, {1, 2, 3})).ok());
    EXPECT_EQ(from->kv_format(), "modelled 4");
    std::vector<core::PageId> pages;
    std::vector<core::PageId> others;
    for (std::uint32_t i = 0; i < kLayers * 5; ++i) {
        pages.push_back(i);
        others.push_back(i + 40);
    }
    std::vector<std::byte> bytes(pages.size() * static_cast<std::size_t>(from->kv_page_bytes()));
    ASSERT_TRUE(from->read_pages(pages, bytes).ok());
    ASSERT_TRUE(to->write_pages(others, bytes).ok());
    const auto next = run(*to, chunk_of({0, kLayers}, 3, {4}, 40));
    ASSERT_TRUE(next.ok()) << next.error().message;
    EXPECT_EQ(next->tokens.at(0).token, expected({1, 2, 3, 4}));
    EXPECT_EQ(make({0, 1}, options(0.5))->kv_travel_bytes(), 0.5 * 10 * kBlock);
}

TEST(ModelledBackend, MemoryAndPagesAreCounted) {
    auto backend = ModelledBackend::create(options());
    ASSERT_TRUE(backend.ok());
    const auto middle = (*backend)->load({1, 3});
    ASSERT_TRUE(middle.ok());
    EXPECT_EQ(*middle, (100'000 - 2000) / 40);
    const auto all = (*backend)->load({0, kLayers});
    ASSERT_TRUE(all.ok());
    EXPECT_EQ(*all, (100'000 - 6000 - 120) / 40);
    ModelledOptions small = options();
    small.memory_bytes = 2000;
    auto tight = ModelledBackend::create(small);
    ASSERT_TRUE(tight.ok());
    const auto refused = (*tight)->load({1, 3});
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("80 bytes"), std::string::npos)
        << refused.error().message;
}

TEST(ModelledBackend, AnEmbeddingIsMadeUpAndTheSameHoweverThePromptIsCut) {
    std::vector<std::vector<float>> all;
    for (const std::int32_t rows : {64, 3}) {
        auto backend = make({0, kLayers}, options());
        core::WorkerConfig config;
        config.n_layers = kLayers;
        config.block_size = kBlock;
        config.max_batch_rows = config.mixed_prefill_rows = rows;
        test::ServedWorker worker(*backend, config, 200);
        const core::SequenceKey key{{1}, 1, 0};
        worker.start(key, {3, 1, 4, 1, 5, 9, 2, 6}, {}, 1, 0, false, spec::Pooling::mean);
        EXPECT_TRUE(worker.take(key).empty());
        const auto embeddings = worker.take_embeddings();
        ASSERT_EQ(embeddings.size(), 1U);
        all.push_back(embeddings[0].values);
        EXPECT_EQ(std::count(all.back().begin(), all.back().end(), 1.0F), 1);
    }
    EXPECT_EQ(all[0], all[1]);
}

// What a worker does with it: groups, drafts and swaps give the text of a sequence that ran alone.
TEST(ModelledBackend, SharedCopiedSwappedAndDraftedPagesGiveTheTextOfOneAlone) {
    ModelledOptions o = options();
    o.swap_bytes = 10 * kBlock * 100;
    auto backend = make({0, kLayers}, o);
    EXPECT_EQ(backend->swap_pages(), 100);
    core::WorkerConfig config;
    config.n_layers = kLayers;
    config.block_size = kBlock;
    test::ServedWorker worker(*backend, config, 200);
    const std::vector<spec::Token> prompt{3, 1, 4, 1, 5, 9};
    const core::SequenceKey first{{1}, 1, 0};
    const core::SequenceKey second{{1}, 1, 1};
    spec::SamplingParams sampling;
    sampling.temperature = 1;
    sampling.seed = 8;
    worker.start(first, prompt, sampling, 2);
    std::vector<spec::Token> texts[] = {prompt, prompt};
    const auto next = [&](std::size_t member) {
        spec::SamplingParams own = sampling;
        own.seed = spec::member_seed(sampling.seed, static_cast<std::uint32_t>(member));
        return modelled_next_token(texts[member], kLayers, 500, own);
    };
    for (const std::size_t member : {0U, 1U}) {
        const auto drawn = worker.take(member == 0 ? first : second);
        ASSERT_EQ(drawn.size(), 1U);
        EXPECT_EQ(drawn[0].token, next(member));
        texts[member].push_back(drawn[0].token);
    }
    EXPECT_NE(texts[0], texts[1]);
    worker.say(core::ForkSequences{first, 6, {1}});
    worker.rows(first, 6, {texts[0][6]});
    texts[0].push_back(next(0));
    EXPECT_EQ(worker.take(first).at(0).token, texts[0][7]);
    worker.say(core::SwapSequences{true, {first, second}});
    worker.start({{2}, 1, 0}, std::vector<spec::Token>(60, 7), sampling);
    worker.say(core::SwapSequences{false, {first, second}});
    // A right draft and a wrong one.
    const spec::Token row = texts[1][6];
    const spec::Token right = next(1);
    worker.rows(second, 6, {row, right, 499}, 2, 0);
    texts[1].push_back(right);
    const auto two = worker.take(second);
    ASSERT_EQ(two.size(), 2U);
    EXPECT_EQ(two[0].token, right);
    EXPECT_EQ(two[1].token, next(1));
    EXPECT_GT(worker.copies, 0U);
    EXPECT_GT(worker.swaps, 0U);
}

TEST(ModelledBackend, ABatchTakesTheModelledTime) {
    auto backend = make({0, kLayers}, options(1e-3));
    core::BatchPlan plan;
    plan.chunks.push_back(chunk_of({0, kLayers}, 0, {1, 2, 3}));
    EXPECT_DOUBLE_EQ(backend->plan_seconds(plan), 18.0);
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(run(*backend, chunk_of({0, kLayers}, 0, {1, 2, 3})).ok());
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(18));
}

}  // namespace
}  // namespace helix::engine::modelled_backend_test
