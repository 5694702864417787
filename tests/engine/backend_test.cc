// The whole backend on synthetic models: against the reference forward, and bit for bit against
// itself however the work is cut up.

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "base/effort.h"
#include "model/counted_weights.h"
#include "op_helpers.h"
#include "reference_model.h"
#include "runner.h"
#include "synth_file.h"

namespace helix::engine::test::backend_test {
namespace {

using spec::LayerRange;
using spec::Token;

// The synthetic model of these tests, small in every way the format allows.
model::SynthShape shape_for(TensorType type, bool tied) {
    model::SynthShape shape;
    shape.name = "test";
    shape.n_layers = kLayers;
    const bool k_quant = model::tensor_type_info(type)->block_size > 32;
    shape.hidden = k_quant ? 256 : 96;
    shape.n_heads = k_quant ? 8 : 6;
    shape.n_kv_heads = 2;
    shape.ffn = k_quant ? 512 : 160;
    shape.vocab = kVocab;
    shape.context_length = 512;
    shape.tied_embeddings = tied;
    return shape;
}

class ModelFile : public SynthFile {
  public:
    ModelFile(TensorType type, bool tied) : SynthFile(shape_for(type, tied), type) {}
};

class Backends : public testing::TestWithParam<TensorType> {};

std::string type_name(const testing::TestParamInfo<TensorType>& info) {
    return model::tensor_type_info(info.param)->name;
}
// The kernels of each type are looked at by the tests of the operators.
std::vector<TensorType> types() {
    if (kSanitized) return {TensorType::f16, TensorType::q8_0, TensorType::q6_k};
    return {std::begin(kAllTypes), std::end(kAllTypes)};
}
INSTANTIATE_TEST_SUITE_P(Types, Backends, testing::ValuesIn(types()), type_name);

// Quantised activations (8 bits) are the only approximation; measured against the spread of the
// logits.
TEST_P(Backends, LogprobsAreThoseOfTheReferenceForward) {
    for (const bool tied : {false, true}) {
        const ModelFile file(GetParam(), tied);
        CpuOptions options = test_options();
        options.kv_type = ops::KvType::f32;
        Runner runner = make_runner(file, {0, kLayers}, options, 1);
        auto weights = model::LocalWeights::open(file.path());
        ASSERT_TRUE(weights.ok());
        auto config = model::read_model_config(**weights);
        ASSERT_TRUE(config.ok()) << config.error().message;
        ReferenceModel reference(**weights, *config);
        base::Random random(51);
        const auto tokens = random_tokens(random, 40);
        const auto result = must_run(runner, {piece_of(1, {0, kLayers}, 0, tokens)});
        const auto exact = reference.logits(tokens).back();
        double sum = 0, mean = 0, variance = 0, error = 0;
        for (const double l : exact) sum += std::exp(l), mean += l / 400;
        for (const double l : exact) variance += (l - mean) * (l - mean) / 400;
        for (const spec::TokenLogprob& top : result[0].token.top) {
            const double difference = static_cast<double>(top.logprob) -
                                      (exact[static_cast<std::size_t>(top.token)] - std::log(sum));
            error = std::max(error, std::abs(difference));
        }
        const double allowed = ops::takes_quantised_input(GetParam()) ? 0.12 : 2e-5;
        EXPECT_LE(error, allowed * std::sqrt(variance)) << (tied ? "tied" : "untied");
        EXPECT_GT(variance, 1e-6) << "the logits say nothing";
    }
}

// Random ways to run the same sequences: chunks, batches, page sizes, threads, instruction sets.
TEST_P(Backends, AnyChunkingAndBatchingGivesTheSameBits) {
    const ModelFile file(GetParam(), false);
    base::Random random(52);
    constexpr std::size_t kSequences = 4;
    std::vector<std::vector<Token>> sequences;
    for (std::size_t s = 0; s < kSequences; ++s) {
        sequences.push_back(random_tokens(random, static_cast<std::size_t>(random.between(1, 60))));
    }
    // Expected: each alone, one row at a time, as decoding does it.
    std::vector<std::vector<PieceResult>> expected(kSequences);
    Runner single = make_runner(file, {0, kLayers}, test_options(16, 1), 1);
    for (std::size_t s = 0; s < kSequences; ++s) {
        for (std::size_t p = 0; p < sequences[s].size(); ++p) {
            const auto at = static_cast<std::int32_t>(p);
            expected[s].push_back(
                must_run(single, {piece_of(s, {0, kLayers}, at, {sequences[s][p]})})[0]);
        }
    }
    for (int trial = 0; trial < 6; ++trial) {
        const std::int32_t block_sizes[] = {16, 4, 32, 5, 16, 1};
        CpuOptions options = test_options(block_sizes[trial], 1 + trial % 3);
        if (trial == 3) options.isa = ops::Isa::portable;
        if (trial == 4 && ops::supported(ops::Isa::avx2)) options.isa = ops::Isa::avx2;
        Runner runner = make_runner(file, {0, kLayers}, options, static_cast<std::uint64_t>(trial));
        std::vector<std::size_t> done(kSequences, 0);
        while (true) {
            std::vector<Piece> pieces;
            for (std::size_t s = 0; s < kSequences; ++s) {
                const std::size_t left = sequences[s].size() - done[s];
                if (left == 0 || random.chance(0.3)) continue;
                const std::size_t n =
                    1 + random.below(trial == 0 ? left : std::min<std::size_t>(left, 17));
                const auto from = sequences[s].begin() + static_cast<std::ptrdiff_t>(done[s]);
                pieces.push_back(piece_of(s, {0, kLayers}, static_cast<std::int32_t>(done[s]),
                                          {from, from + static_cast<std::ptrdiff_t>(n)}));
            }
            const auto results = must_run(runner, pieces);
            for (std::size_t i = 0; i < pieces.size(); ++i) {
                const std::size_t s = pieces[i].request;
                done[s] += pieces[i].tokens.size();
                const PieceResult& last = expected[s][done[s] - 1];
                const auto hidden = static_cast<std::size_t>(runner.hidden());
                ASSERT_TRUE(same_bits(std::span(results[i].output).last(hidden), last.output))
                    << "trial " << trial << ", sequence " << s << ", " << done[s] << " rows done";
                ASSERT_EQ(results[i].token.top, last.token.top);
                ASSERT_EQ(results[i].token.token, last.token.token);
            }
            if (std::equal(
                    done.begin(), done.end(), sequences.begin(),
                    [](std::size_t d, const auto& sequence) { return d == sequence.size(); }))
                break;
        }
    }
}

// Requests enter and leave at different layers of a worker: pipelines over overlapping ranges, all
// of them in the same batches, against one worker that runs everything.
TEST_P(Backends, PartialAndOverlappingRangesGiveTheSameBits) {
    const ModelFile file(GetParam(), false);
    base::Random random(53);
    const LayerRange holds[] = {{0, 3}, {1, 4}, {2, kLayers}};
    const std::vector<std::vector<LayerRange>> pipelines = {{{0, 3}, {3, 4}, {4, 5}},
                                                            {{0, 1}, {1, 4}, {4, 5}},
                                                            {{0, 2}, {2, 2}, {2, 5}},
                                                            {{0, 1}, {1, 2}, {2, 5}},
                                                            {{0, 3}, {3, 3}, {3, 5}}};
    std::vector<Runner> workers;
    for (std::size_t w = 0; w < 3; ++w)
        workers.push_back(make_runner(file, holds[w], test_options(), w));
    Runner whole = make_runner(file, {0, kLayers}, test_options(), 9);
    std::vector<std::int32_t> at(pipelines.size(), 0);
    for (int step = 0; step < 4; ++step) {
        std::vector<Piece> expected_pieces;
        for (std::size_t r = 0; r < pipelines.size(); ++r) {
            const std::size_t rows = step == 0 ? 3 + 5 * r : 1;
            expected_pieces.push_back(
                piece_of(r, {0, kLayers}, at[r], random_tokens(random, rows)));
        }
        const auto expected = must_run(whole, expected_pieces);
        std::vector<std::vector<float>> flowing(pipelines.size());
        for (std::size_t w = 0; w < 3; ++w) {
            std::vector<Piece> pieces;
            std::vector<std::size_t> owner;
            for (std::size_t r = 0; r < pipelines.size(); ++r) {
                if (pipelines[r][w].empty()) continue;
                pieces.push_back(
                    piece_of(r, pipelines[r][w], at[r], expected_pieces[r].tokens, flowing[r]));
                owner.push_back(r);
            }
            const auto results = must_run(workers[w], pieces);
            for (std::size_t i = 0; i < owner.size(); ++i) {
                flowing[owner[i]] = results[i].output;
                if (pieces[i].sample) {
                    EXPECT_EQ(results[i].token.top, expected[owner[i]].token.top);
                }
            }
        }
        for (std::size_t r = 0; r < pipelines.size(); ++r) {
            ASSERT_TRUE(same_bits(flowing[r], expected[r].output))
                << "step " << step << ", pipeline " << r;
            at[r] += static_cast<std::int32_t>(expected_pieces[r].tokens.size());
        }
    }
}

TEST(Backend, ReusedPagesKeepNothingOfTheirFormerSequence) {
    const ModelFile file(TensorType::q8_0, false);
    base::Random random(54);
    const auto tokens = random_tokens(random, 45);
    Runner runner = make_runner(file, {0, kLayers}, test_options(), 1);
    const auto expected = must_run(runner, {piece_of(1, {0, kLayers}, 0, tokens)});
    runner.free_sequence(1);
    for (std::uint64_t request = 2; request < 8; ++request) {
        // Fills pages with other values, NaNs among them when the activations are broken.
        Piece dirty = piece_of(100 + request, {1, kLayers - 1}, 0, random_tokens(random, 70));
        dirty.input.assign(70 * 96,
                           request % 2 == 0 ? std::numeric_limits<float>::quiet_NaN() : 3.0F);
        must_run(runner, {dirty});
        runner.free_sequence(100 + request);
        const auto again = must_run(runner, {piece_of(1, {0, kLayers}, 0, tokens)});
        EXPECT_TRUE(same_bits(again[0].output, expected[0].output));
        EXPECT_EQ(again[0].token.top, expected[0].token.top);
        runner.free_sequence(1);
    }
}

TEST(Backend, LoadingOtherLayersKeepsTheResults) {
    const ModelFile file(TensorType::q4_0, true);
    base::Random random(55);
    const auto tokens = random_tokens(random, 20);
    Runner fresh = make_runner(file, {0, kLayers}, test_options(), 1);
    const auto expected = must_run(fresh, {piece_of(1, {0, kLayers}, 0, tokens)});
    Runner changed = make_runner(file, {1, 3}, test_options(), 1);
    ASSERT_TRUE(changed.backend().load({2, 5}).ok());
    ASSERT_TRUE(changed.backend().load({}).ok());
    ASSERT_TRUE(changed.backend().load({0, kLayers}).ok());
    const auto again = must_run(changed, {piece_of(1, {0, kLayers}, 0, tokens)});
    EXPECT_TRUE(same_bits(again[0].output, expected[0].output));
}

TEST(Backend, LayersThatAreThereAreNotReadAgain) {
    for (const bool tied : {false, true}) {
        const ModelFile file(TensorType::q8_0, tied);
        auto opened = model::LocalWeights::open(file.path());
        ASSERT_TRUE(opened.ok());
        const auto weights = std::make_shared<model::CountedWeights>(std::move(*opened));
        const auto config = model::read_model_config(*weights);
        ASSERT_TRUE(config.ok());
        auto backend = make_cpu_backend(weights, *config, test_options());
        ASSERT_TRUE(backend.ok());
        Runner runner(std::move(*backend), {0, kLayers}, 16, 1);
        base::Random random(56);
        const auto tokens = random_tokens(random, 20);
        const auto expected = must_run(runner, {piece_of(1, {0, kLayers}, 0, tokens)});
        const std::int64_t all = weights->bytes_read();
        runner.free_sequence(1);
        runner.backend().drop_kv();
        ASSERT_TRUE(runner.backend().load({0, kLayers}).ok());
        EXPECT_EQ(weights->bytes_read(), all);
        const auto again = must_run(runner, {piece_of(1, {0, kLayers}, 0, tokens)});
        EXPECT_TRUE(same_bits(again[0].output, expected[0].output));
        EXPECT_EQ(again[0].token.top, expected[0].token.top);
        // Another end: the layers in between stay.
        ASSERT_TRUE(runner.backend().load({1, kLayers - 1}).ok());
        EXPECT_EQ(weights->bytes_read(), all);
        ASSERT_TRUE(runner.backend().load({0, kLayers}).ok());
        EXPECT_GT(weights->bytes_read(), all);
        EXPECT_LT(weights->bytes_read(), 2 * all);
    }
}

TEST(Backend, TheBudgetBoundsThePagesAndAMissingByteIsNamed) {
    const ModelFile file(TensorType::q8_0, false);
    const auto pages_with = [&](std::int64_t bytes, LayerRange layers) {
        CpuOptions options = test_options();
        options.memory_bytes = bytes;
        auto backend = open_backend(file.path(), options);
        EXPECT_TRUE(backend.ok());
        return (*backend)->load(layers);
    };
    // Keys and values of 2 heads of 16, 16 positions, 2 bytes.
    const std::int64_t page = 2 * 2 * 16 * 16 * 2;
    const auto little = pages_with(1, {0, kLayers});
    ASSERT_FALSE(little.ok());
    EXPECT_EQ(little.error().code, base::Errc::unavailable);
    const std::string& message = little.error().message;
    const std::int64_t missing = std::stoll(message.substr(message.find("budget is 1: ") + 13));
    const auto exact = pages_with(1 + missing, {0, kLayers});
    ASSERT_TRUE(exact.ok()) << exact.error().message;
    EXPECT_EQ(*exact, kLayers);  // one page for each layer
    const auto short_of_one = pages_with(missing, {0, kLayers});
    ASSERT_FALSE(short_of_one.ok());
    EXPECT_NE(short_of_one.error().message.find(": 1 bytes are missing"), std::string::npos)
        << short_of_one.error().message;
    EXPECT_EQ(*pages_with(1 + missing + 10 * page, {0, kLayers}), kLayers + 10);
    EXPECT_TRUE(pages_with(missing / 2, {1, 2}).ok());
}

TEST(Backend, BadPlansAreErrorsThatSayWhatIsWrong) {
    const ModelFile file(TensorType::f32, false);
    auto backend = open_backend(file.path(), test_options());
    ASSERT_TRUE(backend.ok());
    ASSERT_TRUE((*backend)->load({1, kLayers}).ok());
    const std::vector<float> rows(96, 1.0F);
    const auto expect_error = [&](const char* part, auto&& change) {
        core::BatchPlan plan;
        plan.id = 1;
        core::BatchChunk chunk;
        chunk.key.request.value = 42;
        chunk.layers = {1, kLayers};
        chunk.tokens = {7};
        chunk.pages = {0, 1, 2, 3};
        chunk.sample = true;
        change(chunk);
        plan.chunks.push_back(chunk);
        const auto result =
            (*backend)->run(plan, [&](const core::PayloadRef&) { return std::span(rows); });
        if (part == nullptr) {
            EXPECT_TRUE(result.ok());
            return;
        }
        ASSERT_FALSE(result.ok()) << part;
        EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
        EXPECT_NE(result.error().message.find("request 42"), std::string::npos)
            << result.error().message;
    };
    expect_error(nullptr, [](core::BatchChunk&) {});
    expect_error("layers [0, 5) are not within [1, 5)", [](core::BatchChunk& c) {
        c.layers = {0, kLayers};
    });
    expect_error("pages for 4 layers", [](core::BatchChunk& c) { c.first_position = 16; });
    expect_error("page 99999999", [](core::BatchChunk& c) { c.pages[2] = 99999999; });
    expect_error("token 400", [](core::BatchChunk& c) { c.tokens = {400}; });
    expect_error("192 activations expected for 2 rows, 96 received", [](core::BatchChunk& c) {
        c.tokens = {1, 2};
    });
    expect_error("output rows", [](core::BatchChunk& c) { c.output_row = 0; });
    expect_error("no rows", [](core::BatchChunk& c) { c.tokens.clear(); });
    expect_error("0 tokens of history with a prompt of 3", [](core::BatchChunk& c) {
        c.sampling.presence_penalty = 1;
        c.prompt_tokens = 3;
    });
}

// Nothing but its own sampling is wrong: the others of its batch go on.
TEST(Backend, ATokenThatCannotBeDrawnFailsItsSequenceOnly) {
    const ModelFile file(TensorType::f32, false);
    auto backend = open_backend(file.path(), test_options());
    ASSERT_TRUE(backend.ok());
    ASSERT_TRUE((*backend)->load({1, kLayers}).ok());
    const std::vector<float> rows(96, 1.0F);
    const std::vector<float> nan_rows(96, std::numeric_limits<float>::quiet_NaN());
    const auto run = [&](bool nan, auto&& change) {
        core::BatchPlan plan;
        for (const std::uint64_t request : {41U, 42U}) {
            core::BatchChunk chunk;
            chunk.key.request.value = request;
            chunk.layers = {1, kLayers};
            chunk.tokens = {7};
            for (core::PageId i = 0; i < 4; ++i) {
                chunk.pages.push_back(i + (request == 41 ? 0U : 4U));
            }
            chunk.input.buffer = request;
            chunk.sample = true;
            if (request == 42) change(chunk);
            plan.chunks.push_back(chunk);
        }
        auto result = (*backend)->run(plan, [&](const core::PayloadRef& ref) {
            return std::span(nan && ref.buffer == 42 ? nan_rows : rows);
        });
        EXPECT_TRUE(result.ok());
        return std::move(result).value();
    };
    using enum core::StuckCause;
    const auto expect_failed = [&](const char* part, core::StuckCause cause,
                                   const BatchResult& result) {
        ASSERT_EQ(result.tokens.size(), 2U) << part;
        ASSERT_EQ(result.failed.size(), 1U) << part;
        EXPECT_EQ(result.failed[0].key.request.value, 42U);
        EXPECT_EQ(result.tokens[1].key.request.value, 42U);
        EXPECT_NE(result.failed[0].reason.find(part), std::string::npos) << result.failed[0].reason;
        EXPECT_EQ(result.failed[0].cause, cause) << part;
    };
    const auto good = run(false, [](core::BatchChunk&) {});
    EXPECT_TRUE(good.failed.empty());
    const auto hot = run(false, [](core::BatchChunk& c) { c.sampling.temperature = -2; });
    expect_failed("temperature", invalid_request, hot);
    EXPECT_EQ(hot.tokens[0], good.tokens[0]);
    const auto broken = run(true, [](core::BatchChunk&) {});
    expect_failed("is nan", failed, broken);
    EXPECT_EQ(broken.tokens[0], good.tokens[0]);
    expect_failed("cannot follow a grammar", failed, run(false, [](core::BatchChunk& c) {
                      c.sampling.grammar.kind = spec::OutputGrammar::Kind::json_object;
                  }));
}

}  // namespace
}  // namespace helix::engine::test::backend_test
