// Requests that move between workers while they run: real sockets, a real model.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <thread>

#include "base/effort.h"
#include "engine/backends.h"
#include "node/real_cluster.h"
#include "node/watched_backend.h"

namespace helix::node::migration_cluster_test {
namespace {

using namespace test_support;

class MigrationCluster : public RealCluster {
  protected:
    struct Piece {
        char worker;
        spec::LayerRange layers;
    };
    using Pieces = std::vector<Piece>;
    // The synthetic model of four layers, on workers that are called a, b and so on.
    void serve_pipelines(const std::vector<Pieces>& pipelines) {
        std::size_t workers = 0;
        for (const Pieces& pieces : pipelines) workers += pieces.size();
        const auto planner =
            [=](const spec::ClusterSpec& cluster) -> base::Result<plan::PlanReport> {
            if (cluster.nodes.size() < workers) return base::invalid("a worker has left");
            std::map<char, std::int32_t> at;
            for (const spec::NodeSpec& node : cluster.nodes) {
                const auto next = static_cast<std::int32_t>(at.size());
                at[node.name[0]] = next;
            }
            plan::PlanReport report;
            report.placement.layers.resize(workers);
            for (const Pieces& pieces : pipelines) {
                std::int32_t from = spec::kCoordinator;
                for (const auto& [worker, layers] : pieces) {
                    report.placement.layers[static_cast<std::size_t>(at[worker])] = layers;
                    report.flows.push_back({from, at[worker], 10});
                    from = at[worker];
                }
                report.flows.push_back({from, spec::kCoordinator, 10});
                report.max_flow_tokens_per_s += 10;
            }
            return report;
        };
        serve(
            synthetic(),
            [&](CoordinatorOptions& options) {
                options.core.block_size = 4;
                options.planner = planner;
            },
            static_cast<std::int32_t>(workers));
    }
    // One worker that holds all layers, and two that share them.
    void serve_both_ways() { serve_pipelines({{{'a', {0, 4}}}, {{'b', {0, 1}}, {'c', {1, 4}}}}); }
    static core::Request request(std::int32_t n) {
        core::Request made = greedy({}, 180);
        for (spec::Token token = 0; token < 30; ++token) made.prompt.push_back(3 + token * n % 40);
        made.sampling.temperature = 1;
        made.sampling.seed = static_cast<std::uint64_t>(n);
        return made;
    }
    // Moves the request whenever a few tokens have come since it was moved. Returns how often it
    // was.
    std::int32_t run_moving(const core::Request& request, std::vector<spec::Token>& tokens) {
        const auto sink = std::make_shared<RecordingSink>();
        const core::RequestId id = server_->submit(request, sink);
        std::int32_t moves = 0;
        for (std::size_t length = 5; length < 150; length += 10) {
            EXPECT_TRUE(sink->wait_for(
                [&](const RecordingSink& s) { return s.done_ || s.tokens_.size() >= length; }, 60));
            core::Pipeline before;
            sink->wait_for([&](const RecordingSink& s) {
                before = s.pipeline_;
                return true;
            });
            server_->move(id);
            const bool moved = sink->wait_for(
                [&](const RecordingSink& s) { return s.done_ || s.pipeline_ != before; }, 20);
            EXPECT_TRUE(moved) << "of " << length << " tokens";
            ++moves;
        }
        EXPECT_TRUE(sink->wait_done(60));
        EXPECT_EQ(sink->reason_, core::FinishReason::length) << sink->error_;
        tokens = sink->tokens_;
        return moves;
    }
    // What the first requests are answered when nothing moves.
    std::vector<std::vector<spec::Token>> stayed(std::int32_t requests) {
        std::vector<std::vector<spec::Token>> answers;
        for (std::int32_t n = 1; n <= requests; ++n) {
            const auto sink = std::make_shared<RecordingSink>();
            server_->submit(request(n), sink);
            EXPECT_TRUE(sink->wait_done(60));
            EXPECT_EQ(sink->reason_, core::FinishReason::length)
                << sink->error_ << sink->rejection_;
            answers.push_back(sink->tokens_);
        }
        return answers;
    }
    void expect_moved_say(const std::vector<std::vector<spec::Token>>& answers);
    // Moves the request to the other pipeline so often, each time after it has had a token on its
    // own.
    void move_often(RecordingSink& sink, core::RequestId id, std::int64_t moves) {
        std::size_t length = 0;
        for (std::int64_t i = 0; i < moves; ++i) {
            core::Pipeline before;
            const auto has_token = [&](const RecordingSink& s) {
                before = s.pipeline_;
                return s.done_ || s.tokens_.size() > length;
            };
            const auto has_moved = [&](const RecordingSink& s) {
                length = s.tokens_.size();
                return s.done_ || s.pipeline_ != before;
            };
            ASSERT_TRUE(sink.wait_for(has_token, 60)) << "before move " << i;
            server_->move(id);
            ASSERT_TRUE(sink.wait_for(has_moved, 60)) << "move " << i;
        }
    }

    // Serves anew with workers that take their time, so that an answer is not over before it has
    // moved often.
    void serve_paced(const std::function<void()>& serve) {
        workers_.clear();
        server_.reset();
        backend_of_ = [this, backend_of = backend_of_](std::int32_t i) {
            const auto before_run = [this, i](const core::BatchPlan&) {
                ++batches_.at(static_cast<std::size_t>(i));
                if (unhurried_) std::this_thread::sleep_for(std::chrono::milliseconds(15));
            };
            return std::make_shared<WatchedProvider>(backend_of(i), before_run);
        };
        serve();
    }

    std::atomic<bool> unhurried_ = true;
    std::array<std::atomic<std::int64_t>, 3> batches_{};  // of each worker, paced
};

// Each request moves from one pipeline to the other again and again.
void MigrationCluster::expect_moved_say(const std::vector<std::vector<spec::Token>>& answers) {
    for (std::size_t i = 0; i < answers.size(); ++i) {
        std::vector<spec::Token> tokens;
        EXPECT_GT(run_moving(request(static_cast<std::int32_t>(i) + 1), tokens), 5);
        EXPECT_EQ(tokens, answers[i]) << "request " << i + 1;
    }
    const auto least = 3 * static_cast<std::int64_t>(answers.size());
    EXPECT_TRUE(eventually([&] { return server_->view().migrations.committed() > least; }))
        << server_->view().migrations.committed() << " were committed";
    EXPECT_TRUE(eventually([&] {
        const core::ClusterView view = server_->view();
        return std::all_of(view.workers.begin(), view.workers.end(),
                           [](const core::WorkerView& worker) { return worker.used_pages == 0; });
    })) << "pages are left behind";
}

TEST_F(MigrationCluster, MovedAgainAndAgainARequestGetsTheTokensOfOneThatStays) {
    serve_both_ways();
    const auto answers = stayed(kSanitized ? 1 : 3);
    serve_paced([&] { serve_both_ways(); });
    expect_moved_say(answers);
}

// The pipeline of one worker is a Vulkan device's; the other one's workers are a CPU's and another
// Vulkan device's.
TEST_F(MigrationCluster, MovedBetweenProcessorsAndVulkanDevicesItGetsTheTokensOfProcessors) {
    if (kSanitized) GTEST_SKIP() << "the next test moves between them, too";
    auto vulkan = engine::make_backend_provider("vulkan", {.devices = {"0"}});
    if (!vulkan.ok()) GTEST_SKIP() << vulkan.error().message;
    serve_both_ways();
    const auto answers = stayed(1);
    const auto on_processors = backend_of_;
    backend_of_ = [&](std::int32_t i) { return i == 1 ? on_processors(i) : *vulkan; };
    serve_paced([&] { serve_both_ways(); });
    expect_moved_say(answers);
}

// One of the two holders of all layers is a Vulkan device.
TEST_F(MigrationCluster, OneAnswerMovesAHundredTimesBetweenAProcessorAndAVulkanDevice) {
    const auto vulkan = engine::make_backend_provider("vulkan", {.devices = {"0"}});
    if (!vulkan.ok()) GTEST_SKIP() << vulkan.error().message;
    const std::int64_t moves = whole_sweeps() ? 100 : 100 / static_cast<int>(kSweepStride);
    context_tokens_ = 2048;
    core::Request asked = request(1);
    asked.max_tokens = static_cast<std::int32_t>(15 * moves);
    asked.sampling.n_logprobs = 4;
    const std::vector<Pieces> either{{{'a', {0, 4}}}, {{'b', {0, 4}}}};
    serve_pipelines(either);
    const auto stayed = std::make_shared<RecordingSink>();
    server_->submit(asked, stayed);
    ASSERT_TRUE(stayed->wait_done(60));
    ASSERT_EQ(stayed->reason_, core::FinishReason::length) << stayed->error_ << stayed->rejection_;

    const auto on_processor = backend_of_;
    backend_of_ = [&](std::int32_t i) { return i == 1 ? *vulkan : on_processor(i); };
    serve_paced([&] { serve_pipelines(either); });
    const auto moved = std::make_shared<RecordingSink>();
    move_often(*moved, server_->submit(asked, moved), moves);
    unhurried_ = false;
    ASSERT_TRUE(moved->wait_done(60));
    EXPECT_EQ(moved->reason_, core::FinishReason::length) << moved->error_;
    EXPECT_EQ(moved->tokens_, stayed->tokens_);
    ASSERT_EQ(moved->produced_.size(), stayed->produced_.size());
    for (std::size_t i = 0; i < moved->produced_.size(); ++i) {
        EXPECT_EQ(moved->produced_[i].logprob, stayed->produced_[i].logprob) << "token " << i;
        EXPECT_EQ(moved->produced_[i].top, stayed->produced_[i].top) << "token " << i;
    }
    EXPECT_TRUE(eventually([&] { return server_->view().migrations.committed() >= moves; }))
        << server_->view().migrations.committed() << " were committed";
    EXPECT_GE(batches_[0], moves / 2);
    EXPECT_GE(batches_[1], moves / 2);
}

}  // namespace
}  // namespace helix::node::migration_cluster_test
