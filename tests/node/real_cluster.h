#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>

#include "engine/cpu/cpu_provider.h"
#include "model/synth.h"
#include "node/cluster_fixture.h"
#include "node/even_coordinator.h"

// A real model on three workers in this process, over real sockets.

namespace helix::node::test_support {

class RealCluster : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string name = (std::filesystem::temp_directory_path() / "helix-real-XXXXXX").string();
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        dir_ = name;
    }
    void TearDown() override {
        workers_.clear();
        server_.reset();
        std::filesystem::remove_all(dir_);
    }

    // Workers a, b, c that have the file, with the layers dealt out evenly in this order.
    void serve(const std::string& path, const std::function<void(CoordinatorOptions&)>& change,
               std::int32_t n_workers = 3) {
        workers_.clear();
        server_.reset();
        CoordinatorOptions options = even_coordinator(
            path, n_workers,
            [this](CoordinatorOptions& made) { made.model.spec.context_length = context_tokens_; });
        change(options);
        server_ = start_coordinator(std::move(options));
        ASSERT_NE(server_, nullptr);
        for (std::int32_t i = 0; i < n_workers; ++i) {
            WorkerOptions worker;
            worker.name = std::string(1, static_cast<char>('a' + i));
            worker.memory_bytes = worker_memory_;
            worker.swap_bytes = swap_bytes_;
            worker.threads = 1;
            worker.backend = backend_of_(i);
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
        cached_ = sink->cached_tokens_;
        return sink->tokens_;
    }

    // Of one that joins, once the view has it.
    core::WorkerView worker_called(const std::string& name) const {
        core::WorkerView found;
        EXPECT_TRUE(eventually([&] {
            for (const core::WorkerView& worker : server_->view().workers) {
                if (worker.node.name == name) found = worker;
            }
            return found.node.name == name;
        })) << "no worker "
            << name;
        return found;
    }

    std::string synthetic(const std::string& shape = "tiny") const {
        model::SynthOptions synth;
        synth.shape = shape;
        synth.path = (dir_ / (shape + ".gguf")).string();
        EXPECT_TRUE(model::synth_model(synth).ok());
        return synth.path;
    }

    std::filesystem::path dir_;
    std::int32_t context_tokens_ = 256;
    std::int64_t worker_memory_ = 64 << 20;
    std::int64_t swap_bytes_ = 0;
    // What worker i of serve() computes with.
    std::function<std::shared_ptr<engine::BackendProvider>(std::int32_t i)> backend_of_ =
        [](std::int32_t) { return std::make_shared<engine::CpuProvider>(); };
    std::int32_t cached_ = 0;  // tokens of the last prompt
    std::unique_ptr<CoordinatorServer> server_;
    std::vector<std::unique_ptr<RunningWorker>> workers_;
};

}  // namespace helix::node::test_support
