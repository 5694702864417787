// The whole backend with KV caches of every type: bit for bit the same however the work is cut up
// and wherever the pages go.

#include <gtest/gtest.h>

#include "base/effort.h"
#include "engine/ops/kv_type.h"
#include "op_helpers.h"
#include "runner.h"
#include "synth_file.h"

namespace helix::engine::test::kv_types_test {
namespace {

using spec::Token;

constexpr spec::LayerRange kAll{0, kLayers};

model::SynthShape small_shape() {
    model::SynthShape shape;
    shape.name = "test";
    shape.n_layers = kLayers;
    shape.hidden = 96;
    shape.n_heads = 4;
    shape.n_kv_heads = 2;
    shape.ffn = 160;
    shape.vocab = kVocab;
    shape.context_length = 512;
    return shape;
}

class KvTypes : public testing::TestWithParam<ops::KvType> {
  protected:
    CpuOptions options(std::int32_t block_size, int threads) const {
        CpuOptions o = test_options(block_size, threads);
        o.kv_type = GetParam();
        return o;
    }
    const SynthFile file_{small_shape(), TensorType::q8_0};
};

INSTANTIATE_TEST_SUITE_P(Types, KvTypes,
                         testing::Values(ops::KvType::f16, ops::KvType::bf16, ops::KvType::f32,
                                         ops::KvType::q8),
                         [](const auto& given) { return ops::to_string(given.param); });

const std::vector<std::int32_t> kBlockSizes =
    kSanitized ? std::vector<std::int32_t>{5} : std::vector<std::int32_t>{16, 5};

// f16 and f32 are held to it by backend_test.cc.
class CoarserKvTypes : public KvTypes {};
INSTANTIATE_TEST_SUITE_P(Types, CoarserKvTypes, testing::Values(ops::KvType::bf16, ops::KvType::q8),
                         [](const auto& given) { return ops::to_string(given.param); });

TEST_P(CoarserKvTypes, AnyChunkingThreadsPagesAndInstructionSetGiveTheSameBits) {
    base::Random random(61);
    // Beyond the 256 positions that are summed up at a time.
    const auto tokens = random_tokens(random, 300);
    const auto other = random_tokens(random, 300);
    const auto rows = [&](const std::vector<Token>& of, std::size_t from, std::size_t n) {
        const auto at = of.begin() + static_cast<std::ptrdiff_t>(from);
        return std::vector<Token>(at, at + static_cast<std::ptrdiff_t>(n));
    };
    std::vector<core::ProducedToken> expected;
    for (const ops::Isa isa : machine_isas()) {
        for (const std::int32_t block_size : kBlockSizes) {
            CpuOptions o = options(block_size, 1 + static_cast<int>(random.below(3)));
            o.isa = isa;
            Runner runner = make_runner(file_, kAll, o, 62);
            const bool first = expected.empty();
            std::size_t at = 0;
            if (first) expected.resize(tokens.size() + 1);
            while (at < tokens.size()) {
                // The first runs are one row at a time, and alone, at the end.
                const std::size_t left = tokens.size() - at;
                std::size_t n = std::min<std::size_t>(left, 1 + random.below(40));
                if (first) n = at == 0 ? 250 : 1;
                const auto position = static_cast<std::int32_t>(at);
                std::vector<Piece> pieces{piece_of(1, kAll, position, rows(tokens, at, n))};
                if (!first) pieces.push_back(piece_of(2, kAll, position, rows(other, at, n)));
                const auto results = must_run(runner, pieces);
                at += n;
                core::ProducedToken& wanted = expected[at];
                if (first) wanted = results[0].token;
                if (wanted.top.empty()) continue;
                ASSERT_EQ(results[0].token.top, wanted.top)
                    << ops::to_string(isa) << ", pages of " << block_size << ", " << at << " rows";
            }
        }
    }
}

// Pages copied and swapped hold the sequence as before, whatever happens where they were.
TEST_P(KvTypes, PagesMoveWhole) {
    constexpr std::int32_t kBlock = 5;
    constexpr std::int32_t kBlocks = 5;
    constexpr core::PageId kCount = kBlocks * kLayers;
    CpuOptions o = options(kBlock, 1);
    o.swap_bytes = 1 << 20;
    auto backend = open_backend(file_.path(), o);
    ASSERT_TRUE(backend.ok()) << backend.error().message;
    ASSERT_TRUE((*backend)->load(kAll).ok());
    ASSERT_GE((*backend)->swap_pages(), kCount);
    base::Random random(63);
    const auto tokens = random_tokens(random, 22);
    const auto noise = random_tokens(random, 22);
    const auto run = [&](const std::vector<Token>& rows, std::int32_t position,
                         core::PageId first_page) {
        core::BatchPlan plan;
        core::BatchChunk chunk;
        chunk.key.request.value = 1;
        chunk.layers = kAll;
        chunk.first_position = position;
        chunk.tokens = rows;
        for (core::PageId i = 0; i < kCount; ++i) chunk.pages.push_back(first_page + i);
        chunk.sample = true;
        chunk.sampling.n_logprobs = kVocab - 1;
        plan.chunks.push_back(chunk);
        auto result = (*backend)->run(plan, {});
        EXPECT_TRUE(result.ok()) << result.error().message;
        return result->tokens.at(0).top;
    };
    const auto move = [&](auto&& change) {
        core::BatchPlan plan;
        for (core::PageId i = 0; i < kCount; ++i) change(plan, i);
        EXPECT_TRUE((*backend)->run(plan, {}).ok());
    };
    run(tokens, 0, 0);
    const auto expected = run({7}, 22, 0);
    EXPECT_NE(run({7}, 22, 2 * kCount), expected) << "pages that hold nothing of it";
    run(tokens, 0, 0);
    move([](core::BatchPlan& plan, core::PageId i) { plan.copies.push_back({i, kCount + i}); });
    move([](core::BatchPlan& plan, core::PageId i) { plan.swap_out.push_back({i, i}); });
    run(noise, 0, 0);
    EXPECT_EQ(run({7}, 22, kCount), expected);
    run(noise, 0, kCount);
    move([](core::BatchPlan& plan, core::PageId i) {
        plan.swap_in.push_back({3 * kCount + i, i});
    });
    EXPECT_EQ(run({7}, 22, 3 * kCount), expected);
}

TEST_P(KvTypes, TheBudgetHoldsAsManyPagesAsTheTypeSays) {
    const auto pages_with = [&](std::int64_t bytes) {
        CpuOptions o = options(16, 1);
        o.memory_bytes = bytes;
        auto backend = open_backend(file_.path(), o);
        EXPECT_TRUE(backend.ok());
        const auto pages = (*backend)->load(kAll);
        EXPECT_TRUE(pages.ok());
        return pages.ok() ? *pages : -1;
    };
    // 16 positions of 2 heads of 24: keys of 24 dimensions, values with room for 32.
    const std::int64_t elements = 2 * 16 * (24 + 32);
    std::int64_t page = 2 * elements;
    if (GetParam() == ops::KvType::f32) page = 4 * elements;
    if (GetParam() == ops::KvType::q8) page = elements + 2 * 2 * 16 * 4;
    const std::int64_t some = 8 << 20;
    EXPECT_EQ(pages_with(some + 100 * page) - pages_with(some), 100);
    EXPECT_EQ(pages_with(some + 1000 * page) - pages_with(some), 1000);
}

}  // namespace
}  // namespace helix::engine::test::kv_types_test
