// Structured output from end to end: the demo model, split over workers that get its vocabulary
// over the wire.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/cpu/cpu_backend.h"
#include "model/local_weights.h"
#include "node/cluster_fixture.h"
#include "node/even_coordinator.h"
#include "node/grammar_filter.h"
#include "text/detokenizer.h"

namespace helix::node::grammar_cluster_test {
namespace {

using namespace test_support;
namespace fs = std::filesystem;
using Kind = spec::OutputGrammar::Kind;

const std::string kDemo = std::string(HELIX_SOURCE_DIR) + "/models/helix-demo.gguf";
constexpr const char* kSchema =
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":20},
        "count":{"type":"integer","minimum":1,"maximum":99},
        "kind":{"enum":["worker","coordinator"]}},"required":["name","count","kind"]})";

const spec::OutputGrammar kList{Kind::gbnf, R"(root ::= "[" item ("," item){24} "]"
item ::= "\"" [a-z]{2,4} "\"")"};

class GrammarCluster : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string name = (fs::temp_directory_path() / "helix-grammar-XXXXXX").string();
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        dir_ = name;
        const auto file = model::GgufFile::open(kDemo);
        ASSERT_TRUE(file.ok()) << file.error().message;
        auto vocabulary = text::read_vocabulary(**file);
        ASSERT_TRUE(vocabulary.ok());
        auto tokenizer = text::Tokenizer::create(std::move(*vocabulary));
        ASSERT_TRUE(tokenizer.ok());
        tokenizer_ = *tokenizer;
    }
    void TearDown() override { fs::remove_all(dir_); }

    static std::unique_ptr<CoordinatorServer> serve(std::int32_t workers,
                                                    double expected_output_tokens = 240) {
        return start_coordinator(even_coordinator(kDemo, workers, [&](CoordinatorOptions& options) {
            options.core.expected_output_tokens = expected_output_tokens;
        }));
    }

    core::Request request(spec::OutputGrammar grammar, std::uint64_t seed) const {
        core::Request out =
            greedy(tokenizer_->encode("Tell me about machines.", {true, false}), 160);
        out.sampling.grammar = std::move(grammar);
        out.sampling.temperature = seed == 0 ? 0.0F : 0.8F;
        out.sampling.seed = seed;
        for (spec::Token t = 0; t < tokenizer_->vocab_size(); ++t) {
            if (tokenizer_->is_end_of_generation(t)) out.stop_tokens.push_back(t);
        }
        return out;
    }

    std::string text_of(const std::vector<spec::Token>& tokens) const {
        return text::decode(*tokenizer_, tokens, {});
    }

    static std::shared_ptr<model::WeightSource> demo_weights() {
        auto opened = model::LocalWeights::open(kDemo);
        EXPECT_TRUE(opened.ok()) << opened.error().message;
        return std::move(*opened);
    }
    static model::ModelConfig demo_config() {
        const auto config = model::read_model_config(*demo_weights());
        EXPECT_TRUE(config.ok()) << config.error().message;
        return *config;
    }

    fs::path dir_;
    std::shared_ptr<const text::Tokenizer> tokenizer_;
};

TEST_F(GrammarCluster, AnswersFollowTheirGrammarsOnAnyPlacement) {
    const std::vector<spec::OutputGrammar> grammars = {
        {Kind::json_schema, kSchema},
        {Kind::gbnf, "root ::= \"yes\" | \"no, \" [a-z ]{3,9} \".\""},
        {Kind::json_object, ""},
    };
    std::vector<std::vector<spec::Token>> first;
    for (const std::int32_t workers : {1, 2}) {
        const auto server = serve(workers);
        RunningWorker a(cpu_worker("a", dir_), cluster_address(*server));
        std::unique_ptr<RunningWorker> b;
        if (workers == 2) {
            b = std::make_unique<RunningWorker>(cpu_worker("b", dir_), cluster_address(*server));
        }
        std::vector<std::shared_ptr<RecordingSink>> sinks;
        for (const auto& grammar : grammars) {  // all at once, in shared batches
            for (const std::uint64_t seed : {0U, 7U}) {
                sinks.push_back(std::make_shared<RecordingSink>());
                server->submit(request(grammar, seed), sinks.back());
            }
        }
        for (std::size_t i = 0; i < sinks.size(); ++i) {
            ASSERT_TRUE(sinks[i]->wait_done(240));
            const std::string text = text_of(sinks[i]->tokens_);
            SCOPED_TRACE(text);
            const bool open_ended = i >= 4;  // any object may be long
            if (sinks[i]->reason_ == core::FinishReason::length && open_ended) continue;
            ASSERT_EQ(sinks[i]->reason_, core::FinishReason::stop) << sinks[i]->error_;
            if (i < 2 || open_ended) {
                const auto value = nlohmann::json::parse(text, nullptr, false);
                ASSERT_TRUE(value.is_object());
                if (i < 2) {
                    EXPECT_EQ(value.size(), 3U);
                }
            } else {
                EXPECT_TRUE(text == "yes" || text.starts_with("no, "));
            }
        }
        for (std::size_t i = 0; i < sinks.size(); ++i) {
            if (workers == 1) {
                first.push_back(sinks[i]->tokens_);
            } else {
                EXPECT_EQ(sinks[i]->tokens_, first[i]) << i;
            }
        }
    }
}

TEST_F(GrammarCluster, AGrammarThatNoTokenCanFollowEndsItsRequestOnly) {
    const auto server = serve(1);
    RunningWorker a(cpu_worker("a", dir_), cluster_address(*server));
    const auto fine = std::make_shared<RecordingSink>();
    const auto bad = std::make_shared<RecordingSink>();
    server->submit(request({Kind::json_schema, kSchema}, 0), fine);
    // The server's own checks come before this point.
    server->submit(request({Kind::gbnf, "root ::= missing"}, 0), bad);
    ASSERT_TRUE(bad->wait_done(240));
    EXPECT_EQ(bad->reason_, core::FinishReason::invalid_request);
    EXPECT_NE(bad->error_.find("rule \"missing\" is not defined"), std::string::npos)
        << bad->error_;
    ASSERT_TRUE(fine->wait_done(240));
    EXPECT_EQ(fine->reason_, core::FinishReason::stop) << fine->error_;
}

// Sixteen requests where about half of them have room, under a grammar that counts: those that give
// way recompute, and the grammar goes on where it was.
TEST_F(GrammarCluster, PreemptedRequestsGoOnWhereTheirGrammarWas) {
    std::vector<std::vector<spec::Token>> undisturbed;
    WorkerOptions options = cpu_worker("a", dir_);
    for (const bool scarce : {false, true}) {
        const auto server = serve(1, 1);
        RunningWorker a(options, cluster_address(*server));
        std::vector<std::shared_ptr<RecordingSink>> sinks;
        for (std::uint64_t seed = 0; seed < 16; ++seed) {
            sinks.push_back(std::make_shared<RecordingSink>());
            core::Request wanted = request(kList, seed);
            wanted.max_tokens = 250;
            server->submit(std::move(wanted), sinks.back());
        }
        for (std::size_t i = 0; i < sinks.size(); ++i) {
            ASSERT_TRUE(sinks[i]->wait_done(240));
            const std::string text = text_of(sinks[i]->tokens_);
            SCOPED_TRACE(text);
            ASSERT_EQ(sinks[i]->reason_, core::FinishReason::stop) << sinks[i]->error_;
            const auto value = nlohmann::json::parse(text, nullptr, false);
            ASSERT_TRUE(value.is_array());
            EXPECT_EQ(value.size(), 25U);
            if (scarce) {
                EXPECT_EQ(sinks[i]->tokens_, undisturbed[i]);
            } else {
                undisturbed.push_back(sinks[i]->tokens_);
            }
        }
        ASSERT_TRUE(eventually([&] { return server->view().finished == 16; }));
        const core::ClusterView view = server->view();
        if (scarce) {
            EXPECT_GT(view.preemptions, 0);
            continue;
        }
        EXPECT_EQ(view.preemptions, 0);
        const auto config = demo_config();
        constexpr std::int64_t kBlocks = 1400 / 16;  // what the planner wants at least
        const std::int64_t page_bytes = std::int64_t{config.n_kv_heads} * config.head_dim * 16 * 4;
        options.memory_bytes -=
            (view.workers.at(0).total_pages - kBlocks * config.n_layers) * page_bytes;
    }
}

TEST_F(GrammarCluster, DraftingAheadDrawsTheSameTokens) {
    const auto server = serve(1);
    RunningWorker a(cpu_worker("a", dir_), cluster_address(*server));
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (const std::uint64_t seed : {0U, 7U}) {
        for (const std::int32_t drafts : {0, 6}) {
            core::Request wanted = request(kList, seed);
            wanted.max_tokens = 250;
            wanted.max_draft_tokens = drafts;
            sinks.push_back(std::make_shared<RecordingSink>());
            server->submit(std::move(wanted), sinks.back());
        }
    }
    for (const auto& sink : sinks) {
        ASSERT_TRUE(sink->wait_done(240));
        ASSERT_EQ(sink->reason_, core::FinishReason::stop) << sink->error_;
    }
    EXPECT_EQ(sinks[1]->tokens_, sinks[0]->tokens_);
    EXPECT_EQ(sinks[3]->tokens_, sinks[2]->tokens_);
    ASSERT_TRUE(eventually([&] { return server->view().finished == 4; }));
    const core::ClusterView view = server->view();
    EXPECT_GT(view.draft_tokens, 0);
    EXPECT_GT(view.accepted_draft_tokens, 0);
}

// As after a preemption, prompt and output so far come in one piece to a worker that has seen
// nothing of them.
TEST_F(GrammarCluster, ARecomputedSequenceGoesOnWithTheSameToken) {
    const auto weights = demo_weights();
    const model::ModelConfig config = demo_config();
    const auto backend = [&] {
        engine::CpuOptions options;
        options.threads = 1;
        options.memory_bytes = 64 << 20;
        options.filter = std::make_shared<GrammarFilter>(weights);
        auto made = engine::make_cpu_backend(weights, config, options);
        EXPECT_TRUE(made.ok());
        EXPECT_TRUE((*made)->load({0, config.n_layers}).ok());
        return std::move(*made);
    };
    const core::Request wanted = request({Kind::json_schema, kSchema}, 3);
    const auto step = [&](engine::Backend& engine, const std::vector<spec::Token>& all,
                          std::int32_t first) {
        core::BatchPlan plan;
        core::BatchChunk chunk;
        chunk.key = {{1}, 1};
        chunk.layers = {0, config.n_layers};
        chunk.first_position = first;
        chunk.tokens.assign(all.begin() + first, all.end());
        chunk.sample = true;
        chunk.sampling = wanted.sampling;
        chunk.history = all;
        chunk.prompt_tokens = static_cast<std::int32_t>(wanted.prompt.size());
        const std::int32_t blocks = (static_cast<std::int32_t>(all.size()) + 15) / 16;
        for (std::int32_t layer = 0; layer < config.n_layers; ++layer) {
            for (std::int32_t i = 0; i < blocks; ++i) {
                chunk.pages.push_back(static_cast<core::PageId>(layer * 32 + i));
            }
        }
        plan.chunks.push_back(std::move(chunk));
        const auto result = engine.run(plan, {});
        EXPECT_TRUE(result.ok() && result->failed.empty());
        return result->tokens.at(0).token;
    };
    const auto steady = backend();
    std::vector<spec::Token> all = wanted.prompt;
    std::int32_t first = 0;
    int compared = 0;
    for (int i = 0; i < 60; ++i) {
        const spec::Token next = step(*steady, all, first);
        if (i % 7 == 3) {
            const auto fresh = backend();
            EXPECT_EQ(step(*fresh, all, 0), next) << "after " << i << " tokens";
            ++compared;
        }
        if (tokenizer_->is_end_of_generation(next)) break;
        first = static_cast<std::int32_t>(all.size());
        all.push_back(next);
    }
    EXPECT_GE(compared, 2);
}

}  // namespace
}  // namespace helix::node::grammar_cluster_test
