// Pages of KV that move from one backend to another.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "op_helpers.h"
#include "runner.h"
#include "synth_file.h"

namespace helix::engine::test::kv_transfer_test {
namespace {

using spec::LayerRange;
using spec::Token;

constexpr LayerRange kAll{0, kLayers};
constexpr std::int32_t kBlock = 5;

model::SynthShape shape() {
    model::SynthShape shape;
    shape.name = "moved";
    shape.n_layers = kLayers;
    shape.hidden = 128;
    shape.n_heads = 8;
    shape.n_kv_heads = 4;
    shape.ffn = 160;
    shape.vocab = kVocab;
    shape.context_length = 512;
    return shape;
}

CpuOptions options_of(int ranks, ops::KvType type) {
    CpuOptions options = test_options(kBlock, ranks);
    options.ranks = ranks;
    options.kv_type = type;
    return options;
}

std::vector<std::byte> pages_out(Runner& from, std::uint64_t request, std::int32_t layer) {
    const std::vector<core::PageId>& pages = from.pages(request, layer);
    const auto each = static_cast<std::size_t>(from.backend().kv_page_bytes());
    std::vector<std::byte> bytes(pages.size() * each);
    const base::Status read = from.backend().read_pages(pages, bytes);
    EXPECT_TRUE(read.ok()) << read.error().message;
    return bytes;
}

// All that the sequence has in the layers.
void move_kv(Runner& from, Runner& to, std::uint64_t request, LayerRange layers) {
    to.take_pages(request, layers, from.pages(request, layers.begin).size());
    for (std::int32_t layer = layers.begin; layer < layers.end; ++layer) {
        const std::vector<std::byte> bytes = pages_out(from, request, layer);
        const base::Status written = to.backend().write_pages(to.pages(request, layer), bytes);
        ASSERT_TRUE(written.ok()) << written.error().message;
    }
}

TEST(KvTransfer, TheNextRowsAreTheSameBitsWhateverTheRanksOfEitherSide) {
    const SynthFile file(shape(), TensorType::q8_0);
    base::Random random(5);
    const std::vector<Token> text = random_tokens(random, 33);
    const std::vector<Token> rest(text.begin() + 18, text.end());
    for (const ops::KvType type :
         {ops::KvType::f16, ops::KvType::bf16, ops::KvType::f32, ops::KvType::q8}) {
        Runner whole = make_runner(file, kAll, options_of(1, type), 1);
        const auto hidden = static_cast<std::size_t>(whole.hidden());
        const PieceResult expected = must_run(whole, {piece_of(1, kAll, 0, text)})[0];
        for (const int from_ranks : {1, 2}) {
            for (const int to_ranks : {1, 4}) {
                Runner from = make_runner(file, kAll, options_of(from_ranks, type), 2);
                Runner to = make_runner(file, kAll, options_of(to_ranks, type), 3);
                EXPECT_EQ(from.backend().kv_format(), to.backend().kv_format());
                must_run(from, {piece_of(1, kAll, 0, {text.begin(), text.begin() + 18})});
                move_kv(from, to, 1, kAll);
                const PieceResult got = must_run(to, {piece_of(1, kAll, 18, rest)})[0];
                EXPECT_TRUE(same_bits(got.output, std::span(expected.output).subspan(18 * hidden)))
                    << from_ranks << " ranks to " << to_ranks;
                EXPECT_EQ(pages_out(from, 1, 0).size(),
                          4U * static_cast<std::size_t>(from.backend().kv_page_bytes()));
            }
        }
    }
}

TEST(KvTransfer, PagesMoveWhileOtherSequencesRun) {
    const SynthFile file(shape(), TensorType::q8_0);
    base::Random random(6);
    const std::vector<Token> text = random_tokens(random, 20);
    Runner from = make_runner(file, kAll, options_of(2, ops::KvType::f16), 2);
    Runner to = make_runner(file, kAll, options_of(2, ops::KvType::f16), 3);
    must_run(from, {piece_of(1, kAll, 0, text)});
    to.take_pages(1, kAll, from.pages(1, 0).size());
    const std::vector<core::PageId> source = from.pages(1, 0);
    const std::vector<core::PageId> target = to.pages(1, 0);
    std::atomic<bool> stop{false};
    std::vector<std::byte> bytes(source.size() *
                                 static_cast<std::size_t>(from.backend().kv_page_bytes()));
    std::thread mover([&] {
        do {  // at least once, should the other thread have been quicker
            EXPECT_TRUE(from.backend().read_pages(source, bytes).ok());
            EXPECT_TRUE(to.backend().write_pages(target, bytes).ok());
        } while (!stop.load());
    });
    for (std::uint64_t request = 2; request < 6; ++request) {
        must_run(from, {piece_of(request, kAll, 0, text)});
        must_run(to, {piece_of(request, kAll, 0, text)});
    }
    stop.store(true);
    mover.join();
    EXPECT_EQ(pages_out(to, 1, 0), pages_out(from, 1, 0));
}

TEST(KvTransfer, FormatsDifferWhereBytesDo) {
    const SynthFile file(shape(), TensorType::q8_0);
    const auto format = [&](CpuOptions options) {
        return make_runner(file, kAll, std::move(options), 1).backend().kv_format();
    };
    const std::string first = format(options_of(1, ops::KvType::f16));
    EXPECT_EQ(first, "f16 5x4x16");
    EXPECT_NE(format(options_of(1, ops::KvType::f32)), first);
    CpuOptions other = options_of(1, ops::KvType::f16);
    other.block_size = 8;
    EXPECT_NE(format(other), first);
}

TEST(KvTransfer, PagesThatAreNotThereAndBytesThatAreNotTheirsAreRefused) {
    const SynthFile file(shape(), TensorType::q8_0);
    Runner runner = make_runner(file, kAll, options_of(1, ops::KvType::f16), 1);
    const auto each = static_cast<std::size_t>(runner.backend().kv_page_bytes());
    std::vector<std::byte> bytes(each);
    const std::vector<core::PageId> none{1U << 31U};
    EXPECT_FALSE(runner.backend().read_pages(none, bytes).ok());
    EXPECT_FALSE(runner.backend().write_pages(none, bytes).ok());
    const std::vector<core::PageId> one{0};
    EXPECT_TRUE(runner.backend().write_pages(one, bytes).ok());
    bytes.pop_back();
    EXPECT_FALSE(runner.backend().write_pages(one, bytes).ok());
    EXPECT_FALSE(runner.backend().read_pages(one, bytes).ok());
}

}  // namespace
}  // namespace helix::engine::test::kv_transfer_test
