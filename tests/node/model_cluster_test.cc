// A real model over real sockets: weights arrive over the wire, the text is llama.cpp's.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "model/hf_folder.h"
#include "model/manifest.h"
#include "model/synth.h"
#include "node/cluster_fixture.h"
#include "node/even_coordinator.h"
#include "node/kept_model.h"
#include "node/tensor_cache.h"

namespace helix::node::model_cluster_test {
namespace {

using namespace test_support;
namespace fs = std::filesystem;

const std::string kStories = HELIX_DATA_DIR "/models/stories260K.gguf";
const std::string kAnswers = HELIX_DATA_DIR "/models/stories260K_greedy.json";

class ModelCluster : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string name = (fs::temp_directory_path() / "helix-node-XXXXXX").string();
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        dir_ = name;
    }
    void TearDown() override { fs::remove_all(dir_); }

    // Layers dealt out evenly, so that every worker has some.
    static std::unique_ptr<CoordinatorServer> serve(
        const std::string& path, std::int32_t workers, const model::WeightOptions& weights = {},
        engine::ops::KvType kv_type = engine::ops::KvType::f16) {
        const auto change = [&](CoordinatorOptions& options) {
            EXPECT_TRUE(set_kv_type(options.model, kv_type, options.core.block_size).ok());
            // The recorded answers pass what the file says.
            options.model.spec.context_length = 256;
            // A message without the model's number would name another one.
            options.core.model = {3};
        };
        return start_coordinator(even_coordinator(path, workers, change, weights));
    }

    static std::vector<spec::Token> ask(CoordinatorServer& server,
                                        const std::vector<spec::Token>& prompt, std::int32_t count,
                                        std::size_t stages) {
        const auto sink = std::make_shared<RecordingSink>();
        server.submit(greedy(prompt, count), sink);
        EXPECT_TRUE(sink->wait_done(60));
        EXPECT_EQ(sink->reason_, core::FinishReason::length) << sink->error_ << sink->rejection_;
        EXPECT_EQ(sink->pipeline_.size(), stages);
        return sink->tokens_;
    }

    fs::path dir_;
};

TEST_F(ModelCluster, ThreeWorkersGiveLlamaCppsTokens) {
    if (!fs::exists(kStories)) GTEST_SKIP() << "no " << kStories;
    const auto server = serve(kStories, 3);
    RunningWorker a(cpu_worker("a", dir_), cluster_address(*server));
    RunningWorker b(cpu_worker("b", dir_), cluster_address(*server));
    RunningWorker c(cpu_worker("c", dir_), cluster_address(*server));
    std::ifstream file(kAnswers);
    const nlohmann::json answers = nlohmann::json::parse(file);
    for (const nlohmann::json& answer : answers) {
        const auto expected = answer["tokens"].get<std::vector<spec::Token>>();
        const auto count = static_cast<std::int32_t>(expected.size());
        EXPECT_EQ(ask(*server, answer["prompt_tokens"], count, 3), expected) << answer["prompt"];
    }
}

TEST_F(ModelCluster, AWorkerKeepsItsWeightsWhateverNumberTheirModelHas) {
    model::SynthOptions synth;
    synth.path = (dir_ / "tiny.gguf").string();
    ASSERT_TRUE(model::synth_model(synth).ok());
    const net::Wakeup loop;
    KeptModel kept(loop);
    wire::Welcome welcome;
    welcome.model.name = "tiny";
    welcome.model_id = {3};
    kept.begin(welcome);
    const auto weights =
        std::make_shared<model::CountedWeights>(*model::open_weights(synth.path, {}));
    kept.weights = weights;
    welcome.model_id = {4};
    kept.begin(welcome);
    EXPECT_EQ(kept.weights, weights);
    welcome.model_hash.low = 1;
    kept.begin(welcome);
    EXPECT_EQ(kept.weights, nullptr) << "another model";
}

TEST_F(ModelCluster, ReceivedWeightsAreTheFilesAndStayOnDisk) {
    model::SynthOptions synth;
    synth.path = (dir_ / "tiny.gguf").string();
    ASSERT_TRUE(model::synth_model(synth).ok());
    const auto manifest = model::build_manifest(**model::open_weights(synth.path));
    ASSERT_TRUE(manifest.ok());
    const TensorCache cache(dir_ / "cache");
    std::vector<spec::Token> first;
    {
        const auto server = serve(synth.path, 1);
        RunningWorker worker(cpu_worker("a", dir_), cluster_address(*server));
        first = ask(*server, {1, 2, 3}, 10, 1);
    }
    for (const model::TensorDigest& tensor : manifest->tensors) {
        EXPECT_TRUE(cache.read(tensor).ok()) << tensor.name;
    }
    for (const auto& entry : fs::recursive_directory_iterator(dir_ / "cache")) {
        const auto group_or_others = fs::perms::group_all | fs::perms::others_all;
        EXPECT_EQ(entry.status().permissions() & group_or_others, fs::perms::none) << entry.path();
    }
    // A damaged piece of the cache is noticed and fetched again.
    const fs::path damaged = cache.path_of(manifest->tensors[0].hash);
    const fs::path whole = cache.path_of(manifest->tensors[1].hash);
    fs::create_hard_link(whole, dir_ / "whole");
    { std::fstream(damaged, std::ios::in | std::ios::out | std::ios::binary).write("damage", 6); }
    const auto server = serve(synth.path, 1);
    RunningWorker worker(cpu_worker("a", dir_), cluster_address(*server));
    EXPECT_EQ(ask(*server, {1, 2, 3}, 10, 1), first);
    std::ifstream in(damaged, std::ios::binary);
    std::string start(6, '\0');
    in.read(start.data(), 6);
    EXPECT_NE(start, "damage");
    EXPECT_TRUE(fs::equivalent(whole, dir_ / "whole")) << "it was written again";
}

// The model of a folder of safetensors, quantised by the coordinator: one worker receives it, the
// other opens the folder itself.
TEST_F(ModelCluster, AFolderIsServedAsTheGgufFileWouldBe) {
    model::SynthOptions synth;
    synth.shape = "tiny-mixtral";
    synth.quant = "f32";
    synth.path = (dir_ / "plain.gguf").string();
    ASSERT_TRUE(model::synth_model(synth).ok());
    const std::string folder = (dir_ / "folder").string();
    model::test_support::HfFolderWriter(**model::GgufFile::open(synth.path), folder, 2).write();
    synth.quant = "q8_0";
    synth.path = (dir_ / "eight.gguf").string();
    ASSERT_TRUE(model::synth_model(synth).ok());
    std::vector<spec::Token> expected;
    {
        const auto server = serve(synth.path, 1);
        RunningWorker worker(cpu_worker("a", dir_), cluster_address(*server));
        expected = ask(*server, {7, 8, 9}, 12, 1);
    }
    const auto server = serve(folder, 2, {.quantize = "q8_0"});
    WorkerOptions local = cpu_worker("b", dir_);
    local.model_file = folder;
    local.model_options.quantize = "q8_0";
    local.cache_dir.clear();
    RunningWorker a(cpu_worker("a", dir_), cluster_address(*server));
    RunningWorker b(std::move(local), cluster_address(*server));
    EXPECT_EQ(ask(*server, {7, 8, 9}, 12, 2), expected);
}

TEST_F(ModelCluster, ALocalFileIsUsedOnlyWhenItIsTheSameModel) {
    model::SynthOptions synth;
    synth.path = (dir_ / "tiny.gguf").string();
    ASSERT_TRUE(model::synth_model(synth).ok());
    model::SynthOptions other = synth;
    other.seed = 1;
    other.path = (dir_ / "other.gguf").string();
    ASSERT_TRUE(model::synth_model(other).ok());
    std::vector<std::vector<spec::Token>> answers;
    for (const std::string& local : {synth.path, other.path}) {
        const auto server = serve(synth.path, 1);
        WorkerOptions options = cpu_worker("a", dir_);
        options.model_file = local;
        RunningWorker worker(std::move(options), cluster_address(*server));
        answers.push_back(ask(*server, {4, 5, 6}, 12, 1));
        EXPECT_EQ(fs::exists(dir_ / "cache"), local == other.path);
    }
    EXPECT_EQ(answers[0], answers[1]);
}

// The planner counts the bytes of the workers' pages: in q8 a worker has as many more pages as they
// are smaller.
TEST_F(ModelCluster, WorkersKeepTheirKvAsTheCoordinatorPlannedIt) {
    model::SynthOptions synth;
    synth.path = (dir_ / "tiny.gguf").string();
    ASSERT_TRUE(model::synth_model(synth).ok());
    const auto config = model::read_model_config(**model::GgufFile::open(synth.path));
    ASSERT_TRUE(config.ok());
    std::map<engine::ops::KvType, double> kv_bytes;
    for (const auto type : {engine::ops::KvType::f16, engine::ops::KvType::q8}) {
        SCOPED_TRACE(engine::ops::to_string(type));
        const auto server = serve(synth.path, 1, {}, type);
        RunningWorker worker(cpu_worker("a", dir_), cluster_address(*server));
        EXPECT_EQ(ask(*server, {1, 2, 3}, 10, 1).size(), 10U);
        std::int64_t pages = 0;
        ASSERT_TRUE(eventually([&] {
            const core::ClusterView view = server->view();
            if (!view.workers.empty()) pages = view.workers[0].total_pages;
            return pages > 0;
        }));
        const std::int32_t block = core::CoordinatorConfig{}.block_size;
        kv_bytes[type] = static_cast<double>(pages * block) *
                         static_cast<double>(engine::ops::kv_bytes_per_token_layer(
                             type, config->n_kv_heads, config->head_dim, block));
    }
    EXPECT_NEAR(kv_bytes[engine::ops::KvType::q8] / kv_bytes[engine::ops::KvType::f16], 1, 0.01);
}

}  // namespace
}  // namespace helix::node::model_cluster_test
