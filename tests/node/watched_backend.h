#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "engine/backend/provider.h"

// What a worker computes with, watched: a test sees each batch before it runs.

namespace helix::node::test_support {

// Called on the engine's thread.
using BatchWatcher = std::function<void(const core::BatchPlan&)>;

class WatchedBackend final : public engine::Backend {
  public:
    WatchedBackend(std::unique_ptr<engine::Backend> watched, BatchWatcher before_run)
        : watched_(std::move(watched)), before_run_(std::move(before_run)) {}

    base::Result<std::int64_t> load(spec::LayerRange layers) override {
        return watched_->load(layers);
    }
    void drop_kv() override { watched_->drop_kv(); }
    base::Result<engine::BatchResult> run(const core::BatchPlan& plan,
                                          const engine::PayloadRows& payload) override {
        before_run_(plan);
        return watched_->run(plan, payload);
    }
    std::int64_t swap_pages() const override { return watched_->swap_pages(); }
    std::int32_t compute_threads() const override { return watched_->compute_threads(); }
    std::int32_t hidden_size() const override { return watched_->hidden_size(); }
    std::string kv_format() const override { return watched_->kv_format(); }
    std::int64_t kv_page_bytes() const override { return watched_->kv_page_bytes(); }
    double kv_travel_bytes() const override { return watched_->kv_travel_bytes(); }
    base::Status read_pages(std::span<const core::PageId> pages,
                            std::span<std::byte> bytes) const override {
        return watched_->read_pages(pages, bytes);
    }
    base::Status write_pages(std::span<const core::PageId> pages,
                             std::span<const std::byte> bytes) override {
        return watched_->write_pages(pages, bytes);
    }

  private:
    std::unique_ptr<engine::Backend> watched_;
    BatchWatcher before_run_;
};

class WatchedProvider final : public engine::BackendProvider {
  public:
    WatchedProvider(std::shared_ptr<engine::BackendProvider> watched, BatchWatcher before_run)
        : watched_(std::move(watched)), before_run_(std::move(before_run)) {}

    std::string name() const override { return watched_->name(); }
    std::int32_t ranks() const override { return watched_->ranks(); }
    engine::DeviceMemory memory() const override { return watched_->memory(); }
    base::Status check(const model::ModelConfig& config, std::int32_t threads) const override {
        return watched_->check(config, threads);
    }
    base::Result<std::unique_ptr<engine::Backend>> make(
        const engine::BackendRequest& request) override {
        TRY(auto made, watched_->make(request));
        return std::unique_ptr<engine::Backend>(
            std::make_unique<WatchedBackend>(std::move(made), before_run_));
    }
    base::Result<engine::SelfProfile> profile(const engine::BackendRequest& request) override {
        return watched_->profile(request);
    }

  private:
    std::shared_ptr<engine::BackendProvider> watched_;
    BatchWatcher before_run_;
};

// So that an answer is not over before something has happened to it.
inline std::shared_ptr<engine::BackendProvider> unhurried(
    std::shared_ptr<engine::BackendProvider> provider) {
    return std::make_shared<WatchedProvider>(std::move(provider), [](const core::BatchPlan&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(15));
    });
}

}  // namespace helix::node::test_support
