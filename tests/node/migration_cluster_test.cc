// Requests that move between workers while they run: real sockets, a real model.

#include <gtest/gtest.h>

#include "base/effort.h"
#include "engine/backends.h"
#include "node/real_cluster.h"

namespace helix::node::migration_cluster_test {
namespace {

using namespace test_support;

class MigrationCluster : public RealCluster {
  protected:
    // One worker that holds all four layers, and two that share them.
    void serve_both_ways() {
        serve(synthetic(), [](CoordinatorOptions& options) {
            options.core.block_size = 4;
            options.planner =
                [](const spec::ClusterSpec& cluster) -> base::Result<plan::PlanReport> {
                if (cluster.nodes.size() < 3) return base::invalid("a worker has left");
                plan::PlanReport report;
                std::int32_t at[3] = {};
                for (std::int32_t i = 0; i < 3; ++i) {
                    at[cluster.nodes[static_cast<std::size_t>(i)].name[0] - 'a'] = i;
                }
                report.placement.layers.resize(3);
                report.placement.layers[static_cast<std::size_t>(at[0])] = {0, 4};
                report.placement.layers[static_cast<std::size_t>(at[1])] = {0, 1};
                report.placement.layers[static_cast<std::size_t>(at[2])] = {1, 4};
                report.flows = {{spec::kCoordinator, at[0], 10},
                                {at[0], spec::kCoordinator, 10},
                                {spec::kCoordinator, at[1], 10},
                                {at[1], at[2], 10},
                                {at[2], spec::kCoordinator, 10}};
                report.max_flow_tokens_per_s = 20;
                return report;
            };
        });
    }
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
    // So that an answer is not over before it has moved often; a sanitizer slows it too.
    worker_speed_ = kSanitized ? 0.03 : 0.005;
    serve_both_ways();
    expect_moved_say(stayed(kSanitized ? 1 : 3));
}

// The pipeline of one worker is a Vulkan device's; the other one's workers are a CPU's and another
// Vulkan device's.
TEST_F(MigrationCluster, MovedBetweenProcessorsAndVulkanDevicesItGetsTheTokensOfProcessors) {
    auto vulkan = engine::make_backend_provider("vulkan", {.devices = {"0"}});
    if (!vulkan.ok()) GTEST_SKIP() << vulkan.error().message;
    serve_both_ways();
    const auto answers = stayed(1);
    workers_.clear();
    server_.reset();
    worker_speed_ = 0.1;
    const auto on_processors = backend_of_;
    backend_of_ = [&](std::int32_t i) { return i == 1 ? on_processors(i) : *vulkan; };
    serve_both_ways();
    expect_moved_say(answers);
}

}  // namespace
}  // namespace helix::node::migration_cluster_test
