// Drafts over real sockets with a real model in three pieces: they change how many steps an answer
// takes, and nothing else.

#include <gtest/gtest.h>

#include "node/real_cluster.h"

namespace helix::node::speculation_cluster_test {
namespace {

using namespace test_support;
namespace fs = std::filesystem;

const std::string kStories = HELIX_DATA_DIR "/models/stories260K.gguf";

class SpeculationCluster : public RealCluster {
  protected:
    void serve_drafting(const std::string& path, const core::SpeculationConfig& speculation,
                        const std::string& draft = "") {
        serve(path, [&](CoordinatorOptions& options) {
            options.core.speculation = speculation;
            // The clock must not decide how many tokens are drafted.
            options.core.speculation.draft_timeout = base::from_seconds(60);
            if (draft.empty()) return;
            DraftModelOptions small;
            small.path = draft;
            small.threads = 1;
            auto opened = DraftModel::open(small, options.model.weights->file());
            ASSERT_TRUE(opened.ok()) << opened.error().message;
            options.draft_model = std::move(*opened);
        });
    }

    // The batches of the last stage, once its report is up to date.
    std::int64_t batches() {
        std::int64_t last = -1;
        std::int64_t now = 0;
        EXPECT_TRUE(eventually([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(1200));
            last = std::exchange(now, worker_called("c").batches);
            return last == now;
        }));
        return now;
    }
};

// Requests whose drawn answers repeat themselves.
std::vector<core::Request> ways_of_drawing() {
    std::vector<spec::Token> prompt;
    for (int i = 0; i < 30; ++i) prompt.push_back(3 + i % 6);
    const core::Request plain = greedy(prompt, 90);
    core::Request seeded = plain;
    seeded.sampling.temperature = 0.7F;
    seeded.sampling.top_k = 3;
    seeded.sampling.seed = 17;
    core::Request penalised = seeded;
    penalised.sampling.repetition_penalty = 1.05F;
    penalised.sampling.presence_penalty = 0.2F;
    penalised.sampling.frequency_penalty = 0.1F;
    core::Request logged = plain;
    logged.sampling.n_logprobs = 2;
    return {plain, seeded, penalised, logged};
}

TEST_F(SpeculationCluster, DraftsFromTheTextGiveTheTokensOfPlainDecodingInFewerSteps) {
    core::SpeculationConfig lookup;
    lookup.ngram_tokens = 6;
    serve_drafting(synthetic(), lookup);
    std::vector<std::vector<spec::Token>> plain;
    for (core::Request request : ways_of_drawing()) {
        request.max_draft_tokens = 0;
        plain.push_back(ask(request));
    }
    const std::int64_t plain_steps = batches();
    EXPECT_EQ(server_->view().drafts, 0);
    std::size_t i = 0;
    for (const core::Request& request : ways_of_drawing()) EXPECT_EQ(ask(request), plain[i++]);
    const std::int64_t steps = batches() - plain_steps;
    ASSERT_TRUE(eventually([&] { return server_->view().finished == 8; }));
    const core::ClusterView view = server_->view();
    EXPECT_GT(view.accepted_draft_tokens, 20);
    // There is one step less for each drafted token that was right.
    EXPECT_EQ(steps, plain_steps - view.accepted_draft_tokens);
}

TEST_F(SpeculationCluster, AModelDraftsItselfWithoutError) {
    if (!fs::exists(kStories)) GTEST_SKIP() << "no " << kStories;
    core::SpeculationConfig model;
    model.draft_tokens = 5;
    serve_drafting(kStories, model, kStories);
    core::Request request = greedy({1, 403, 407, 261, 378}, 80);
    request.max_draft_tokens = 0;
    const auto plain = ask(request);
    request.max_draft_tokens = -1;
    EXPECT_EQ(ask(request), plain);
    ASSERT_TRUE(eventually([&] { return server_->view().finished == 2; }));
    EXPECT_EQ(server_->view().accepted_draft_tokens, server_->view().draft_tokens);
    EXPECT_GE(server_->view().draft_tokens, 60);
    EXPECT_LE(server_->view().drafts, 20);
}

TEST_F(SpeculationCluster, ADraftModelThatKnowsNothingChangesNoAnswer) {
    const std::string path = synthetic();
    model::SynthOptions synth;
    synth.path = (dir_ / "other.gguf").string();
    synth.seed = 5;
    ASSERT_TRUE(model::synth_model(synth).ok());
    core::SpeculationConfig both;
    both.draft_tokens = 4;
    serve_drafting(path, both, synth.path);
    for (core::Request request : ways_of_drawing()) {
        request.max_draft_tokens = 0;
        const auto plain = ask(request);
        request.max_draft_tokens = -1;
        EXPECT_EQ(ask(request), plain);
    }
    EXPECT_TRUE(eventually([&] { return server_->view().finished == 8; }));
    EXPECT_GT(server_->view().drafts, 0);
    EXPECT_LT(server_->view().accepted_draft_tokens, server_->view().draft_tokens);
}

}  // namespace
}  // namespace helix::node::speculation_cluster_test
