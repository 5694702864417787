// Pages that a window has passed are given back, and others write to them: the tokens and
// log-probabilities are those of a sequence that kept all of its pages, bit for bit. So they are
// where layers that read the keys and values of others have no pages.

#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "checked_vulkan.h"
#include "model/model_config.h"
#include "runner.h"
#include "served_worker.h"
#include "synth_file.h"

namespace helix::engine::test::window_pages_test {
namespace {

using core::ProducedToken;
using core::SequenceKey;
using spec::Token;

constexpr std::int32_t kBlock = 4;
constexpr core::PageId kPages = 600;

// All of its layers have the window.
constexpr SynthKind kPhi3Window{"phi3_window", [](model::SynthShape& s) {
                                    s.architecture = "phi3";
                                    s.sliding_window = 13;
                                }};

// A backend, and before each batch every page that the batch's sequences do not list is overwritten
// with what no score survives.
class Poisoned final : public Backend {
  public:
    explicit Poisoned(Backend& inner, core::PageId pages = kPages) : inner_(inner), pages_(pages) {}
    base::Result<std::int64_t> load(spec::LayerRange layers) override {
        return inner_.load(layers);
    }
    void drop_kv() override { inner_.drop_kv(); }
    base::Result<BatchResult> run(const core::BatchPlan& plan,
                                  const PayloadRows& payload) override {
        std::set<core::PageId> listed;
        for (const core::BatchChunk& chunk : plan.chunks)
            listed.insert(chunk.pages.begin(), chunk.pages.end());
        const std::vector<std::byte> poison(static_cast<std::size_t>(inner_.kv_page_bytes()),
                                            std::byte{0xff});
        for (core::PageId page = 0; page < pages_; ++page) {
            if (listed.contains(page)) continue;
            TRY_VOID(inner_.write_pages(std::span(&page, 1), poison));
        }
        given_back += static_cast<std::int64_t>(listed.count(core::kNoPage));
        return inner_.run(plan, payload);
    }
    std::int32_t hidden_size() const override { return inner_.hidden_size(); }

    std::int64_t given_back = 0;  // batches with pages that were

  private:
    Backend& inner_;
    core::PageId pages_;
};

class WindowPages : public testing::TestWithParam<SynthKind> {
  protected:
    WindowPages() : file_(shape_of(GetParam()), model::TensorType::q8_0) {
        auto weights = model::LocalWeights::open(file_.path());
        auto config = model::read_model_config(**weights);
        if (!config.ok()) ADD_FAILURE() << config.error().message;
        window_ = config->attention_window();
        shared_kv_layers_ = config->n_shared_kv_layers;
        auto backend = open_backend(file_.path(), test_options(kBlock, 1));
        if (!backend.ok()) ADD_FAILURE() << backend.error().message;
        backend_ = std::move(*backend);
    }

    // Of a worker that keeps all pages, of all layers.
    static core::WorkerConfig keeping_all() {
        core::WorkerConfig config;
        config.n_layers = kLayers;
        config.block_size = kBlock;
        config.max_batch_rows = config.mixed_prefill_rows = 7;
        return config;
    }
    core::WorkerConfig keeping_needed() const {
        core::WorkerConfig config = keeping_all();
        config.window = window_;
        config.shared_kv_layers = shared_kv_layers_;
        return config;
    }
    static spec::SamplingParams sampling() {
        spec::SamplingParams sampling;
        sampling.temperature = 0.9F;
        sampling.seed = 5;
        sampling.n_logprobs = 9;
        return sampling;
    }
    static SequenceKey key(std::uint64_t request) { return {{request}, 1, 0}; }

    SynthFile file_;
    spec::AttentionWindow window_;
    std::int32_t shared_kv_layers_ = 0;
    std::unique_ptr<Backend> backend_;
};

TEST_P(WindowPages, OthersWriteToThemAndTheTokensStay) {
    base::Random random(11);
    const std::vector<Token> prompt = random_tokens(random, 61);
    ASSERT_TRUE(window_.any());
    ServedWorker plain(*backend_, keeping_all(), kPages);
    plain.start(key(1), prompt, sampling());
    const std::vector<ProducedToken> expected = plain.decode(key(1), 50);
    const std::int64_t all = plain.used_pages();

    Poisoned poisoned(*backend_);
    ServedWorker worker(poisoned, keeping_needed(), kPages);
    worker.start(key(1), prompt, sampling());
    const std::vector<ProducedToken> got = worker.decode(key(1), 50);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(got[i].token, expected[i].token) << "token " << i;
        EXPECT_EQ(got[i].top, expected[i].top) << "log-probabilities of token " << i;
    }
    EXPECT_GT(poisoned.given_back, 50);
    const std::int64_t windowed =
        window_.count(spec::kv_layers({0, kLayers}, kLayers, shared_kv_layers_));
    const std::int64_t most = window_.most_blocks(200, 1, kBlock);
    const std::int64_t blocks = (61 + 50) / kBlock;
    EXPECT_LE(worker.used_pages(), all - windowed * (blocks - most) - shared_kv_layers_ * blocks);
}

TEST_P(WindowPages, AlsoOnVulkan) {
    const auto vulkan = CheckedVulkan::open();
    if (vulkan == nullptr) GTEST_SKIP() << "no Vulkan device";
    constexpr core::PageId kFew = 100;
    base::Random random(13);
    const std::vector<Token> prompt = random_tokens(random, 37);
    ServedWorker plain(*backend_, keeping_all(), kPages);
    plain.start(key(1), prompt, sampling());
    const std::vector<ProducedToken> expected = plain.decode(key(1), 10);

    auto backend = vulkan->open_backend(file_.path(), kBlock);
    ASSERT_TRUE(backend.ok()) << backend.error().message;
    Poisoned poisoned(**backend, kFew);
    ServedWorker worker(poisoned, keeping_needed(), kFew);
    worker.start(key(1), prompt, sampling());
    const std::vector<ProducedToken> got = worker.decode(key(1), 10);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(got[i].token, expected[i].token) << "token " << i;
        EXPECT_EQ(got[i].top, expected[i].top) << "log-probabilities of token " << i;
    }
    EXPECT_GT(poisoned.given_back, 10);
    EXPECT_EQ(vulkan->objections(), "");
}

TEST_P(WindowPages, AlsoAfterDraftsThatWereWrong) {
    base::Random random(12);
    const std::vector<Token> prompt = random_tokens(random, 30);
    ServedWorker plain(*backend_, keeping_all(), kPages);
    plain.start(key(1), prompt, sampling());
    const std::vector<ProducedToken> expected = plain.decode(key(1), 40);

    Poisoned poisoned(*backend_);
    ServedWorker worker(poisoned, keeping_needed(), kPages);
    worker.start(key(1), prompt, sampling());
    std::vector<ProducedToken> got = worker.take(key(1));
    while (got.size() < 40) {
        // Right up to some token, wrong from there on.
        std::vector<Token> rows{got.back().token};
        const std::size_t right = random.below(4);
        for (std::size_t i = 0; i < 5; ++i) {
            const std::size_t at = got.size() + i;
            const Token next = at < expected.size() ? expected[at].token : 0;
            rows.push_back(i < right ? next : (next + 1) % kVocab);
        }
        worker.rows(key(1), got.back().position, rows, 5);
        for (const ProducedToken& token : worker.take(key(1))) got.push_back(token);
    }
    for (std::size_t i = 0; i < 40; ++i) {
        EXPECT_EQ(got[i].token, expected[i].token) << "token " << i;
        EXPECT_EQ(got[i].top, expected[i].top) << "log-probabilities of token " << i;
    }
    EXPECT_GT(poisoned.given_back, 0);
}

TEST_P(WindowPages, ABatchWithoutAPageThatItNeedsIsRefused) {
    const auto loaded = backend_->load({0, kLayers});
    ASSERT_TRUE(loaded.ok());
    core::BatchPlan plan;
    plan.id = core::kFirstBatch;
    core::BatchChunk& chunk = plan.chunks.emplace_back();
    chunk.key = key(1);
    chunk.layers = {0, kLayers};
    chunk.first_position = 39;
    chunk.tokens.push_back(1);
    chunk.pages.assign(10 * kLayers, 1);
    chunk.pages[9] = core::kNoPage;  // the row's own
    const auto result = backend_->run(plan, {});
    ASSERT_FALSE(result.ok());
    EXPECT_NE(result.error().message.find("no page for block 9 of layer 0"), std::string::npos)
        << result.error().message;
}

INSTANTIATE_TEST_SUITE_P(Kinds, WindowPages,
                         testing::Values(kGptOss, kGemma3, kLlama4, kPhi3Window, kGemma4, kGemma4E,
                                         kOlmo3),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace helix::engine::test::window_pages_test
