// Guesses over real sockets with a real model in three pieces: they change how many steps an answer
// takes, and nothing else.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "model/synth.h"
#include "node/cluster_fixture.h"
#include "node/cpu_provider.h"

namespace helix::node {
namespace {

using namespace testing;
namespace fs = std::filesystem;

const std::string kStories = HELIX_DATA_DIR "/models/stories260K.gguf";

class SpeculationCluster : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string name = (fs::temp_directory_path() / "helix-guess-XXXXXX").string();
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        dir_ = name;
    }
    void TearDown() override {
        workers_.clear();
        server_.reset();
        fs::remove_all(dir_);
    }

    // Three workers that have the file, with the layers dealt out evenly.
    void serve(const std::string& path, core::SpeculationConfig speculation,
               const std::string& draft = "") {
        CoordinatorOptions options;
        auto model = open_served_model(path);
        ASSERT_TRUE(model.ok()) << model.error().message;
        options.model = std::move(*model);
        options.model.spec.context_length = 256;
        options.core.min_workers = 3;
        options.core.settle = base::from_ms(100);
        options.core.speculation = speculation;
        // Not the clock is to decide how many are guessed.
        options.core.speculation.draft_timeout = base::from_seconds(60);
        options.planner = [spec = options.model.spec](const spec::ClusterSpec& cluster) {
            plan::PlanOptions even;
            even.method = plan::Method::even;
            return plan::plan(cluster, spec, even);
        };
        if (!draft.empty()) {
            DraftModelOptions small;
            small.path = draft;
            small.threads = 1;
            auto opened = DraftModel::open(small, options.model.weights->file());
            ASSERT_TRUE(opened.ok()) << opened.error().message;
            options.draft_model = std::move(*opened);
        }
        auto server = CoordinatorServer::start(std::move(options));
        ASSERT_TRUE(server.ok()) << server.error().message;
        server_ = std::move(*server);
        for (const char* name : {"a", "b", "c"}) {
            WorkerOptions worker;
            worker.name = name;
            worker.memory_bytes = 64 << 20;
            worker.threads = 1;
            worker.backend = std::make_shared<CpuProvider>();
            worker.model_file = path;
            workers_.push_back(
                std::make_unique<RunningWorker>(std::move(worker), cluster_address(*server_)));
        }
    }

    std::vector<spec::Token> ask(core::Request request) {
        const auto sink = std::make_shared<RecordingSink>();
        server_->submit(std::move(request), sink);
        EXPECT_TRUE(sink->wait_done(60));
        EXPECT_EQ(sink->reason_, core::FinishReason::length) << sink->error_ << sink->rejection_;
        EXPECT_EQ(sink->pipeline_.size(), 3U);
        return sink->tokens_;
    }

    // Of the last stage, once what it said is up to date.
    std::int64_t batches() {
        std::int64_t last = -1;
        std::int64_t now = 0;
        EXPECT_TRUE(eventually([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(1200));
            last = std::exchange(now, server_->view().workers.at(2).batches);
            return last == now;
        }));
        return now;
    }

    std::string synthetic() const {
        model::SynthOptions synth;
        synth.path = (dir_ / "tiny.gguf").string();
        EXPECT_TRUE(model::synth_model(synth).ok());
        return synth.path;
    }

    fs::path dir_;
    std::unique_ptr<CoordinatorServer> server_;
    std::vector<std::unique_ptr<RunningWorker>> workers_;
};

// One that repeats itself, as drawing goes.
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

TEST_F(SpeculationCluster, GuessesFromTheTextGiveTheTokensOfPlainDecodingInFewerSteps) {
    core::SpeculationConfig lookup;
    lookup.ngram_tokens = 6;
    serve(synthetic(), lookup);
    std::vector<std::vector<spec::Token>> plain;
    for (core::Request request : ways_of_drawing()) {
        request.guesses = 0;
        plain.push_back(ask(request));
    }
    const std::int64_t plain_steps = batches();
    EXPECT_EQ(server_->view().drafts, 0);
    std::size_t i = 0;
    for (const core::Request& request : ways_of_drawing()) EXPECT_EQ(ask(request), plain[i++]);
    const std::int64_t steps = batches() - plain_steps;
    const core::ClusterView view = server_->view();
    EXPECT_GT(view.accepted_draft_tokens, 40);
    // A step less for each guess that came true.
    EXPECT_EQ(steps, plain_steps - view.accepted_draft_tokens);
}

TEST_F(SpeculationCluster, AModelGuessesItselfWithoutError) {
    if (!fs::exists(kStories)) GTEST_SKIP() << "no " << kStories;
    core::SpeculationConfig model;
    model.draft_tokens = 5;
    serve(kStories, model, kStories);
    core::Request request = greedy({1, 403, 407, 261, 378}, 80);
    request.guesses = 0;
    const auto plain = ask(request);
    request.guesses = -1;
    EXPECT_EQ(ask(request), plain);
    ASSERT_TRUE(eventually([&] { return server_->view().drafts > 0; }));
    EXPECT_TRUE(eventually([&] {
        const core::ClusterView view = server_->view();
        return view.accepted_draft_tokens == view.draft_tokens;
    })) << server_->view().accepted_draft_tokens
        << " of " << server_->view().draft_tokens;
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
    serve(path, both, synth.path);
    for (core::Request request : ways_of_drawing()) {
        request.guesses = 0;
        const auto plain = ask(request);
        request.guesses = -1;
        EXPECT_EQ(ask(request), plain);
    }
    EXPECT_TRUE(eventually([&] { return server_->view().drafts > 0; }));
    EXPECT_LT(server_->view().accepted_draft_tokens, server_->view().draft_tokens);
}

}  // namespace
}  // namespace helix::node
