#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/effort.h"
#include "base/eventually.h"
#include "engine/cpu/cpu_provider.h"
#include "engine/modelled/modelled_backend.h"
#include "engine/modelled/modelled_provider.h"
#include "node/coordinator_server.h"
#include "node/worker_server.h"

// A cluster of modelled workers in this process, over real sockets.

namespace helix::node::test_support {

// Every layer takes the same time, whatever the batch.
class FlatCost final : public spec::CostModel {
  public:
    explicit FlatCost(double layer_s) : layer_s_(layer_s) {}
    double layer_s(const spec::NodeSpec&, std::int32_t decodes,
                   std::int32_t prefill) const override {
        return decodes + prefill > 0 ? layer_s_ : 0;
    }

  private:
    double layer_s_;
};

inline spec::ModelSpec small_model(std::int32_t n_layers = 12) {
    spec::ModelSpec model;
    model.name = "paper-thin";
    model.n_layers = n_layers;
    model.layer_bytes = 1'000'000;
    model.embedding_bytes = 100'000;
    model.head_bytes = 100'000;
    model.activation_bytes_per_token = engine::kModelledRowFloats * 4;
    model.kv_bytes_per_token_layer = 64;
    model.flops_per_token_layer = 1e6;
    model.context_length = 2048;
    return model;
}

inline constexpr std::int32_t kVocab = 1000;

// Remembers what a request's owner heard.
class RecordingSink final : public api::TokenSink {
  public:
    void on_token(std::int32_t choice, const core::ProducedToken& token) override {
        const std::lock_guard lock(mutex_);
        if (choice == 0) tokens_.push_back(token.token);
        if (choice == 0) produced_.push_back(token);
        choices_[choice].push_back(token.token);
        changed_.notify_all();
    }
    void on_scored(const std::vector<core::ProducedToken>& tokens) override {
        const std::lock_guard lock(mutex_);
        scored_.insert(scored_.end(), tokens.begin(), tokens.end());
    }
    void on_embedding(const std::vector<float>& values) override {
        const std::lock_guard lock(mutex_);
        embedding_ = values;
    }
    void on_choice_finish(std::int32_t choice, core::FinishReason reason) override {
        const std::lock_guard lock(mutex_);
        choice_reasons_[choice] = reason;
        changed_.notify_all();
    }
    void on_finish(core::FinishReason reason, const std::string& error) override {
        const std::lock_guard lock(mutex_);
        reason_ = reason;
        error_ = error;
        done_ = true;
        changed_.notify_all();
    }
    void on_reject(const core::RejectRequest& rejection) override {
        const std::lock_guard lock(mutex_);
        rejection_ = rejection.message;
        done_ = true;
        changed_.notify_all();
    }
    void on_routed(const core::RequestRouted& routed) override {
        const std::lock_guard lock(mutex_);
        pipeline_ = routed.pipeline;
        cached_tokens_ = routed.cached_tokens;
        changed_.notify_all();
    }

    // As many seconds on a quick and idle machine.
    bool wait_for(const std::function<bool(const RecordingSink&)>& until, int seconds = 60) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, std::chrono::seconds(seconds * kPatience),
                                 [&] { return until(*this); });
    }
    bool wait_done(int seconds = 60) {
        return wait_for([](const RecordingSink& s) { return s.done_; }, seconds);
    }

    std::vector<spec::Token> tokens_;            // of the first choice
    std::vector<core::ProducedToken> produced_;  // the same
    std::vector<core::ProducedToken> scored_;
    std::vector<float> embedding_;
    std::map<std::int32_t, std::vector<spec::Token>> choices_;
    std::map<std::int32_t, core::FinishReason> choice_reasons_;
    core::FinishReason reason_ = core::FinishReason::cancelled;
    std::string error_;
    std::string rejection_;
    core::Pipeline pipeline_;
    std::int32_t cached_tokens_ = 0;
    bool done_ = false;

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
};

// Options of a worker that computes, on one thread. What it fetches lies below dir.
inline WorkerOptions cpu_worker(const std::string& name, const std::filesystem::path& dir) {
    WorkerOptions options;
    options.name = name;
    options.memory_bytes = 64 << 20;
    options.threads = 1;
    options.backend = std::make_shared<engine::CpuProvider>();
    options.cache_dir = dir / "cache";
    return options;
}

inline WorkerOptions modelled_worker(const std::string& name, std::int32_t layers_of_memory,
                                     double layer_s = 20e-6) {
    WorkerOptions options;
    options.name = name;
    // Memory for the weights of this many layers and some room for KV.
    options.memory_bytes = layers_of_memory * 1'200'000 + 300'000;
    options.threads = 1;
    options.backend = std::make_shared<engine::ModelledProvider>(
        spec::NodeSpec{}, std::make_shared<FlatCost>(layer_s), 1.0);
    return options;
}

class RunningWorker {
  public:
    RunningWorker(WorkerOptions options, const std::string& join) : server_(std::move(options)) {
        thread_ =
            std::thread([this, join] { status_ = server_.run(std::vector<std::string>{join}); });
    }
    ~RunningWorker() { stop(); }
    void stop() {
        server_.stop();
        if (thread_.joinable()) thread_.join();
    }
    // Waits until the worker gives up by itself.
    base::Status join() {
        thread_.join();
        return status_;
    }

  private:
    WorkerServer server_;
    base::Status status_ = base::Ok{};
    std::thread thread_;
};

inline CoordinatorOptions modelled_coordinator(std::int32_t min_workers) {
    CoordinatorOptions options;
    options.model = modelled_model(small_model(), kVocab);
    options.core.min_workers = min_workers;
    options.core.settle = base::from_ms(100);
    return options;
}

inline std::string cluster_address(const CoordinatorServer& server) {
    return "127.0.0.1:" + std::to_string(server.join_info().cluster_port);
}

inline core::Request greedy(std::vector<spec::Token> prompt, std::int32_t max_tokens) {
    core::Request request;
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0;
    return request;
}

// What the modelled model says after prompt on any cluster.
inline std::vector<spec::Token> expected_tokens(std::vector<spec::Token> prompt, std::int32_t count,
                                                std::int32_t n_layers = 12) {
    spec::SamplingParams sampling;
    sampling.temperature = 0;
    std::vector<spec::Token> out;
    for (std::int32_t i = 0; i < count; ++i) {
        out.push_back(engine::modelled_next_token(prompt, n_layers, kVocab, sampling));
        prompt.push_back(out.back());
    }
    return out;
}

}  // namespace helix::node::test_support
