// The devices of a host as workers of one process, and a device that is lost while it computes.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "engine/checked_vulkan.h"
#include "node/host_workers.h"
#include "node/real_cluster.h"

namespace helix::node::host_devices_test {
namespace {

using namespace test_support;
using engine::test::CheckedVulkan;

// While it lives, submissions to Vulkan queues can be lost: each says what a driver says that has
// reset its device, and submits nothing.
class LostSubmissions {
  public:
    LostSubmissions() {
        real_ = vkQueueSubmit;
        vkQueueSubmit = submit;
    }
    ~LostSubmissions() {
        after_ = kNever;
        vkQueueSubmit = real_;
    }
    LostSubmissions(const LostSubmissions&) = delete;
    LostSubmissions& operator=(const LostSubmissions&) = delete;

    // Those that follow the next `after`, of which `count` are lost.
    void lose(int after, int count) {
        lost_ = 0;
        count_ = count;
        after_ = after;
    }
    int lost() const { return lost_; }

  private:
    static constexpr int kNever = 1 << 30;

    static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, std::uint32_t n,
                                                 const VkSubmitInfo* what, VkFence fence) {
        if (after_.fetch_sub(1) <= 0 && lost_ < count_) {
            ++lost_;
            return VK_ERROR_DEVICE_LOST;
        }
        return real_(queue, n, what, fence);
    }

    static inline PFN_vkQueueSubmit real_ = nullptr;
    static inline std::atomic<int> after_ = kNever;
    static inline std::atomic<int> count_ = 0;
    static inline std::atomic<int> lost_ = 0;
};

core::Request drawn(std::int32_t seed, std::int32_t max_tokens) {
    core::Request request = greedy({}, max_tokens);
    for (std::int32_t i = 0; i < 30; ++i) request.prompt.push_back(3 + i * seed % 90);
    request.sampling.temperature = 1;
    request.sampling.seed = static_cast<std::uint64_t>(seed);
    return request;
}

class HostDevices : public RealCluster {
  protected:
    void SetUp() override {
        vulkan_ = CheckedVulkan::open();
        RealCluster::SetUp();
        if (vulkan_ == nullptr) GTEST_SKIP() << "no Vulkan device";
    }
    void TearDown() override {
        RealCluster::TearDown();
        if (vulkan_ != nullptr) {
            EXPECT_EQ(vulkan_->objections(), "");
        }
    }
    // What processors alone answer.
    std::vector<spec::Token> right(const core::Request& request) {
        serve(path_, {});
        const std::vector<spec::Token> tokens = ask(request);
        workers_.clear();
        server_.reset();
        return tokens;
    }
    std::optional<core::WorkerView> worker(const std::string& name) const {
        for (const core::WorkerView& one : server_->view().workers) {
            if (one.node.name == name) return one;
        }
        return std::nullopt;
    }
    // Whether the placement has it in a pipeline.
    bool is_in_force(const core::WorkerView& worker) const {
        const auto id = static_cast<std::int32_t>(worker.worker.value);
        const std::vector<spec::LinkFlow> flows = server_->view().flows;
        return std::any_of(flows.begin(), flows.end(),
                           [&](const spec::LinkFlow& flow) { return flow.from == id; });
    }
    void serve(const std::string& path, const std::function<void(CoordinatorOptions&)>& change) {
        RealCluster::serve(
            path, change ? change : [](CoordinatorOptions&) {});
    }

    std::unique_ptr<CheckedVulkan> vulkan_;
    std::string path_;
};

TEST_F(HostDevices, AsWorkersOfOneProcessAnswerWhatProcessorsDo) {
    path_ = synthetic();
    const std::vector<spec::Token> tokens = right(drawn(5, 40));
    server_ = start_coordinator(even_coordinator(
        path_, 3, [](CoordinatorOptions& made) { made.model.spec.context_length = 256; }));
    ASSERT_NE(server_, nullptr);
    std::vector<WorkerOptions> devices(2, cpu_worker("den-cpu", dir_));
    devices[0].name = "den-vulkan0";
    devices[0].backend = vulkan_->provider();
    HostWorkers host(devices);
    base::Status ended = base::invalid("it has not ended");
    std::thread thread(
        [&] { ended = host.run(std::vector<std::string>{cluster_address(*server_)}); });
    WorkerOptions elsewhere = cpu_worker("attic", dir_);
    elsewhere.host = "another";
    workers_.push_back(std::make_unique<RunningWorker>(elsewhere, cluster_address(*server_)));
    EXPECT_EQ(ask(drawn(5, 40)), tokens);
    ASSERT_TRUE(eventually([&] { return worker("den-vulkan0") && worker("den-cpu"); }));
    EXPECT_EQ(worker("den-vulkan0")->node.host, worker("den-cpu")->node.host);
    host.stop();
    thread.join();
    EXPECT_TRUE(ended.ok()) << ended.error().message;
}

TEST_F(HostDevices, WhatIsAskedWhileADeviceIsLostGoesOnElsewhereAndTheDeviceComesBack) {
    path_ = synthetic();
    const core::Request request = drawn(7, 150);
    const std::vector<spec::Token> tokens = right(request);
    ASSERT_EQ(tokens.size(), 150U);
    const auto processor = backend_of_;
    backend_of_ = [&](std::int32_t i) { return i == 1 ? vulkan_->provider() : processor(i); };
    LostSubmissions submissions;
    serve(path_, {});
    const auto sink = std::make_shared<RecordingSink>();
    server_->submit(request, sink);
    ASSERT_TRUE(sink->wait_for([](const RecordingSink& s) { return s.tokens_.size() >= 20; }, 60))
        << sink->rejection_ << sink->error_;
    const std::optional<core::WorkerView> before = worker("b");
    submissions.lose(5, 2);  // while it decodes, and when it is to prove itself
    ASSERT_TRUE(sink->wait_done(60));
    EXPECT_EQ(sink->reason_, core::FinishReason::length) << sink->error_;
    EXPECT_EQ(sink->tokens_, tokens);
    EXPECT_TRUE(eventually([&] { return submissions.lost() == 2; }));
    EXPECT_EQ(server_->view().failovers, 1);
    ASSERT_TRUE(eventually([&] {
        const auto back = worker("b");
        return back && before && back->incarnation > before->incarnation;
    }));
    workers_[0].reset();
    workers_[2].reset();  // now there is no other
    const auto again = std::make_shared<RecordingSink>();
    server_->submit(drawn(7, 30), again);  // few: a device of software takes long for each
    ASSERT_TRUE(again->wait_done(60));
    const std::vector<spec::Token> first(tokens.begin(), tokens.begin() + 30);
    EXPECT_EQ(again->tokens_, first) << again->error_ << again->rejection_;
    EXPECT_TRUE(is_in_force(*worker("b")));
    EXPECT_EQ(submissions.lost(), 2);
}

}  // namespace
}  // namespace helix::node::host_devices_test
