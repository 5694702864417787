// Any number of tensor parallel ranks gives the bits of one, and every rank holds its heads of the
// same pages.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>

#include <gtest/gtest.h>

#include "engine/cpu/kv_memory.h"
#include "engine/host/aligned_buffer.h"
#include "engine/ops/kv_type.h"
#include "engine/runner/model_runner.h"
#include "op_helpers.h"
#include "runner.h"
#include "synth_file.h"

namespace helix::engine::test::tensor_parallel_test {
namespace {

using spec::LayerRange;
using spec::Token;

constexpr LayerRange kAll{0, kLayers};

struct Case {
    const char* name;
    TensorType type;
    void (*change)(model::SynthShape& shape);
    ops::KvType kv_type = ops::KvType::f16;
};

// Eight query heads that share four key-value heads, unless changed.
constexpr Case kCases[] = {
    {"q8_0", TensorType::q8_0, [](model::SynthShape&) {}},
    {"f16", TensorType::f16, [](model::SynthShape&) {}},
    {"q4_k", TensorType::q4_k,
     [](model::SynthShape& s) {
         s.hidden = 256;
         s.ffn = 512;
     }},
    {"heads_of_12_in_panels_of_16", TensorType::f32, [](model::SynthShape& s) { s.hidden = 96; }},
    {"every_head_its_own", TensorType::q4_0, [](model::SynthShape& s) { s.n_kv_heads = 8; }},
    {"qwen2_bias_tied", TensorType::q8_0,
     [](model::SynthShape& s) {
         s.architecture = "qwen2";
         s.tied_embeddings = true;
     }},
    {"window_13", TensorType::q8_0, [](model::SynthShape& s) { s.sliding_window = 13; }},
    {"mixtral", TensorType::q8_0,
     [](model::SynthShape& s) {
         s.n_experts = 8;
         s.n_experts_used = 2;
         s.ffn = 64;
     }},
    {"qwen3moe", TensorType::f16,
     [](model::SynthShape& s) {
         s.architecture = "qwen3moe";
         s.n_experts = 6;
         s.n_experts_used = 3;
         s.ffn = 64;
     }},
    {"qwen2moe", TensorType::q8_0,
     [](model::SynthShape& s) {
         s.architecture = "qwen2moe";
         s.n_experts = 6;
         s.n_experts_used = 3;
         s.ffn = 64;
         s.shared_ffn = 96;
     }},
    {"olmo2", TensorType::q8_0, [](model::SynthShape& s) { s.architecture = "olmo2"; }},
    {"glm4", TensorType::q8_0,
     [](model::SynthShape& s) {
         s.architecture = "glm4";
         s.qkv_bias = true;
     }},
    {"phi3", TensorType::q8_0, [](model::SynthShape& s) { s.architecture = "phi3"; }},
    {"cohere2", TensorType::q8_0,
     [](model::SynthShape& s) {
         s.architecture = "cohere2";
         s.sliding_window = 13;
         s.logit_scale = 0.25F;
     }},
    {"gemma2", TensorType::q8_0,
     [](model::SynthShape& s) {
         s.architecture = "gemma2";
         s.attention_softcap = 2;
         s.logit_softcap = 3;
     }},
    {"gemma4", TensorType::q8_0,
     [](model::SynthShape& s) {
         share_gemma4(s);
         s.keys_are_values = true;
     },
     ops::KvType::q8},
    {"gemma4_e", TensorType::q8_0, share_gemma4_e},
    {"llama4", TensorType::q8_0,
     [](model::SynthShape& s) {
         s.architecture = "llama4";
         s.n_experts = 8;
         s.n_experts_used = 2;
         s.ffn = 64;
         s.shared_ffn = 64;
         s.sliding_window = 13;
         s.temperature_length = 5;
     }},
    {"kv_in_q8", TensorType::q8_0, [](model::SynthShape&) {}, ops::KvType::q8},
    {"kv_in_q8_heads_of_12", TensorType::f32, [](model::SynthShape& s) { s.hidden = 96; },
     ops::KvType::q8},
    {"kv_in_bf16", TensorType::q8_0, [](model::SynthShape&) {}, ops::KvType::bf16},
};

model::SynthShape shape_of(const Case& one) {
    model::SynthShape shape;
    shape.name = one.name;
    shape.n_layers = kLayers;
    shape.hidden = 128;
    shape.n_heads = 8;
    shape.n_kv_heads = 4;
    shape.ffn = 160;
    shape.vocab = kVocab;
    shape.context_length = 512;
    one.change(shape);
    return shape;
}

CpuOptions options_of(int ranks, int threads, std::int32_t block_size = 16,
                      ops::KvType kv_type = ops::KvType::f16) {
    CpuOptions options = test_options(block_size, threads);
    options.kv_type = kv_type;
    options.ranks = ranks;
    options.swap_bytes = 32 << 20;
    return options;
}

class TensorParallel : public testing::TestWithParam<Case> {};
std::vector<Case> cases() {
    return cases_or_few(
        kCases, {"q4_k", "qwen2_bias_tied", "qwen3moe", "olmo2", "gemma2", "kv_in_q8_heads_of_12"},
        [](const Case& one) { return one.name; });
}
INSTANTIATE_TEST_SUITE_P(Models, TensorParallel, testing::ValuesIn(cases()),
                         [](const auto& given) { return given.param.name; });

// Random chunks and batches, with all pages moved by copies and swaps in between.
TEST_P(TensorParallel, AnyNumberOfRanksGivesTheBitsOfOne) {
    const SynthFile file(shape_of(GetParam()), GetParam().type);
    base::Random random(71);
    constexpr std::size_t kSequences = 3;
    std::vector<std::vector<Token>> sequences;
    std::vector<PieceResult> expected;
    const ops::KvType kv_type = GetParam().kv_type;
    Runner single = make_runner(file, kAll, options_of(1, 1, 16, kv_type), 1);
    for (std::size_t s = 0; s < kSequences; ++s) {
        sequences.push_back(random_tokens(random, 25 + 15 * s));
        expected.push_back(must_run(single, {piece_of(s, kAll, 0, sequences[s])})[0]);
    }
    const auto hidden = static_cast<std::size_t>(single.hidden());
    const struct {
        int ranks, threads;
        std::int32_t block_size;
    } trials[] = {{2, 3, 16}, {4, 4, 5}};
    for (const auto& trial : trials) {
        Runner runner = make_runner(
            file, kAll, options_of(trial.ranks, trial.threads, trial.block_size, kv_type), 7);
        std::vector<std::size_t> done(kSequences, 0);
        while (!all_done(sequences, done)) {
            const auto pieces = next_pieces(sequences, done, kAll, 0.2, random);
            const auto results = must_run(runner, pieces);
            for (std::size_t i = 0; i < pieces.size(); ++i) {
                const std::size_t s = pieces[i].request;
                const std::size_t n = pieces[i].tokens.size();
                const auto rows =
                    std::span(expected[s].output).subspan(done[s] * hidden, n * hidden);
                done[s] += n;
                ASSERT_TRUE(same_bits(results[i].output, rows))
                    << trial.ranks << " ranks of " << trial.threads << " threads, sequence " << s
                    << ", " << done[s] << " rows done";
                if (done[s] < sequences[s].size()) continue;
                ASSERT_EQ(results[i].token.top, expected[s].token.top);
                ASSERT_EQ(results[i].token.token, expected[s].token.token);
            }
            if (random.chance(0.5)) {
                const auto moved = runner.shuffle_pages();
                ASSERT_TRUE(moved.ok()) << moved.error().message;
            }
        }
    }
}

TEST(TensorParallelPipeline, WorkersOfDifferentRanksGiveTheBitsOfOne) {
    const SynthFile file(shape_of(kCases[0]), TensorType::q8_0);
    base::Random random(72);
    Runner whole = make_runner(file, kAll, options_of(1, 2), 9);
    const LayerRange holds[] = {{0, 2}, {2, 3}, {3, kLayers}};
    const int ranks[] = {2, 1, 4};
    std::vector<Runner> workers;
    for (std::size_t w = 0; w < 3; ++w)
        workers.push_back(make_runner(file, holds[w], options_of(ranks[w], 4), w));
    std::int32_t at = 0;
    for (const std::size_t rows : {70U, 1U, 1U, 9U}) {
        const auto tokens = random_tokens(random, rows);
        const auto expected = must_run(whole, {piece_of(1, kAll, at, tokens)});
        std::vector<float> flowing;
        for (std::size_t w = 0; w < 3; ++w) {
            const auto results = must_run(workers[w], {piece_of(1, holds[w], at, tokens, flowing)});
            flowing = results[0].output;
            if (w == 2) {
                EXPECT_EQ(results[0].token.top, expected[0].token.top);
            }
        }
        ASSERT_TRUE(same_bits(flowing, expected[0].output)) << "at " << at;
        at += static_cast<std::int32_t>(rows);
    }
}

const KvMemory& kv_memory(Runner& runner) {
    return dynamic_cast<const KvMemory&>(*dynamic_cast<ModelRunner&>(runner.backend()).kv());
}

// One table of pages for all ranks: rank r's part of a page is its heads of what one rank would
// have in that page.
class TensorParallelPages : public testing::TestWithParam<ops::KvType> {};
INSTANTIATE_TEST_SUITE_P(KvTypes, TensorParallelPages,
                         testing::Values(ops::KvType::f16, ops::KvType::q8),
                         [](const auto& given) { return ops::to_string(given.param); });

TEST_P(TensorParallelPages, EveryRankHoldsItsHeadsOfTheSamePages) {
    const model::SynthShape shape = shape_of(kCases[0]);
    const SynthFile file(shape, TensorType::q8_0);
    const ops::KvLayout one{GetParam(), shape.n_kv_heads, shape.hidden / shape.n_heads, 16};
    base::Random random(73);
    const auto tokens = random_tokens(random, 100);
    Runner single = make_runner(file, kAll, options_of(1, 1, 16, GetParam()), 5);
    must_run(single, {piece_of(1, kAll, 0, tokens)});
    ASSERT_TRUE(single.shuffle_pages().ok());
    const KvMemory& expected = kv_memory(single);
    for (const int ranks : {2, 4}) {
        Runner runner = make_runner(file, kAll, options_of(ranks, 4, 16, GetParam()), 5);
        must_run(runner, {piece_of(1, kAll, 0, tokens)});
        ASSERT_TRUE(runner.shuffle_pages().ok());
        const KvMemory& memory = kv_memory(runner);
        ops::KvLayout layout = one;
        layout.ranks = ranks;  // with a stride of 0 offsets are within the rank's part
        const std::int64_t keys = layout.head_keys_bytes();
        const std::int64_t values = layout.head_values_bytes();
        int different = 0;
        for (std::int32_t layer = 0; layer < kLayers; ++layer) {
            ASSERT_EQ(runner.pages(1, layer), single.pages(1, layer));
            for (const core::PageId page : runner.pages(1, layer)) {
                const std::byte* whole = expected.page_of_rank(page, 0).data();
                for (int head = 0; head < shape.n_kv_heads; ++head) {
                    const auto part = memory.page_of_rank(page, head / layout.rank_heads());
                    ASSERT_EQ(std::ssize(part) * ranks, one.page_bytes());
                    different += std::memcmp(part.data() + layout.keys_of_head(head),
                                             whole + one.keys_of_head(head),
                                             static_cast<std::size_t>(keys)) != 0;
                    different += std::memcmp(part.data() + layout.values_of_head(head),
                                             whole + one.values_of_head(head),
                                             static_cast<std::size_t>(values)) != 0;
                }
            }
        }
        EXPECT_EQ(different, 0) << ranks << " ranks";
    }
}

TEST(TensorParallelOptions, RanksThatDoNotFitAreErrorsWithTheNumbers) {
    const SynthFile file(shape_of(kCases[0]), TensorType::q8_0);
    const auto message = [&](int ranks, int threads) {
        const auto backend = open_backend(file.path(), options_of(ranks, threads));
        EXPECT_FALSE(backend.ok());
        return backend.ok() ? std::string() : backend.error().message;
    };
    EXPECT_EQ(message(0, 2), "0 tensor parallel ranks: at least 1");
    EXPECT_EQ(message(3, 4),
              "3 tensor parallel ranks cannot share the model's 4 key-value heads evenly");
    EXPECT_EQ(message(8, 8),
              "8 tensor parallel ranks cannot share the model's 4 key-value heads evenly");
    EXPECT_EQ(message(4, 3), "4 tensor parallel ranks need a thread each; there are 3");
}

// Bytes of huge pages are asked for everywhere but around the boundary.
TEST(AlignedBufferHugePages, ArePartedAtABoundary) {
    constexpr std::size_t kMiB = 1U << 20U;
    auto buffer = AlignedBuffer::allocate(16 * kMiB);
    ASSERT_TRUE(buffer.ok());
    buffer->part_huge_pages(7 * kMiB);
    std::memset(buffer->data(), 1, buffer->size());
    const auto flags_at = [&](std::size_t offset) {
        const auto wanted = std::bit_cast<std::uintptr_t>(buffer->data()) + offset;
        std::ifstream maps("/proc/self/smaps");
        std::string line;
        bool inside = false;
        while (std::getline(maps, line)) {
            std::uintptr_t begin = 0, end = 0;
            if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
                inside = begin <= wanted && wanted < end;
            } else if (inside && line.starts_with("VmFlags:")) {
                return line + " ";
            }
        }
        return std::string();
    };
    const std::string boundary = flags_at(7 * kMiB);
    if (boundary.empty()) GTEST_SKIP() << "the kernel shows no flags of mappings";
    EXPECT_NE(boundary.find(" nh "), std::string::npos) << boundary;
    for (const std::size_t elsewhere : {4 * kMiB, 10 * kMiB}) {
        EXPECT_EQ(flags_at(elsewhere).find(" nh "), std::string::npos) << flags_at(elsewhere);
    }
}

}  // namespace
}  // namespace helix::engine::test::tensor_parallel_test
