// Workers with roles over real sockets, with a real model: two compute prompts, two decode.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "node/real_cluster.h"
#include "node/watched_backend.h"

namespace helix::node::roles_cluster_test {
namespace {

using namespace test_support;
using core::MigrationPhase;
using core::MigrationReason;

// Tokens of an answer that is not over before it can be handed over.
constexpr std::int32_t kLong = 150;

class RolesCluster : public RealCluster {
  protected:
    void serve_apart() {
        path_ = synthetic();
        server_ = start_coordinator(even_coordinator(path_, 4, [](CoordinatorOptions& options) {
            options.model.spec.context_length = 256;
            options.core.block_size = 4;
        }));
        ASSERT_NE(server_, nullptr);
        for (const char* name : {"p1", "p2", "d1", "d2"}) start(name);
        ASSERT_TRUE(eventually([&] { return server_->view().roles_kept == true; }, 60));
    }
    void start(const std::string& name) {
        WorkerOptions worker = cpu_worker(name, dir_ / name);
        worker.role = name[0] == 'p' ? spec::NodeRole::prefill : spec::NodeRole::decode;
        worker.backend = unhurried(worker.backend);
        worker.model_file = path_;
        by_name_[name] =
            std::make_unique<RunningWorker>(std::move(worker), cluster_address(*server_));
    }
    void TearDown() override {
        by_name_.clear();
        RealCluster::TearDown();
    }

    static core::Request request(std::int32_t n, std::int32_t tokens) {
        core::Request made = greedy({}, tokens);
        for (spec::Token token = 0; token < 30; ++token) made.prompt.push_back(3 + token * n % 40);
        made.sampling.temperature = 1;
        made.sampling.seed = static_cast<std::uint64_t>(n);
        return made;
    }
    using Sink = std::shared_ptr<RecordingSink>;
    Sink submit(std::int32_t n, std::int32_t tokens) {
        Sink sink = std::make_shared<RecordingSink>();
        server_->submit(request(n, tokens), sink);
        return sink;
    }
    std::int64_t handed_over() const {
        return server_->view().migrations.of(MigrationReason::handover, MigrationPhase::committed);
    }
    // The answers without roles, where nothing moves.
    std::map<std::int32_t, std::vector<spec::Token>> plain(std::int32_t count,
                                                           std::int32_t tokens) {
        std::map<std::int32_t, std::vector<spec::Token>> said;
        serve(synthetic(), [](CoordinatorOptions&) {});
        for (std::int32_t n = 1; n <= count; ++n) {
            const Sink sink = submit(n, tokens);
            EXPECT_TRUE(sink->wait_done(60));
            said[n] = sink->tokens_;
        }
        workers_.clear();
        server_.reset();
        return said;
    }

    std::string path_;
    std::map<std::string, std::unique_ptr<RunningWorker>> by_name_;
};

TEST_F(RolesCluster, RequestsDecodeElsewhereAndSayTheSame) {
    constexpr std::int32_t kRequests = 4;
    auto said = plain(kRequests, kLong);
    serve_apart();
    std::vector<Sink> sinks;
    for (std::int32_t n = 1; n <= kRequests; ++n) sinks.push_back(submit(n, kLong));
    const Sink one = submit(9, 1);
    for (std::int32_t n = 1; n <= kRequests; ++n) {
        const Sink& sink = sinks[static_cast<std::size_t>(n - 1)];
        ASSERT_TRUE(sink->wait_done(120));
        EXPECT_EQ(sink->tokens_, said[n]) << "request " << n << sink->error_ << sink->rejection_;
    }
    EXPECT_TRUE(one->wait_done(60));
    EXPECT_EQ(one->tokens_.size(), 1U);
    EXPECT_TRUE(eventually([&] { return handed_over() == kRequests; })) << handed_over();
    for (const core::WorkerView& worker : server_->view().workers) {
        EXPECT_FALSE(worker.layers.empty()) << worker.node.name;
    }
    EXPECT_TRUE(eventually([&] {
        const core::ClusterView view = server_->view();
        return std::all_of(view.workers.begin(), view.workers.end(),
                           [](const core::WorkerView& worker) { return worker.used_pages == 0; });
    })) << "pages are left behind";
}

TEST_F(RolesCluster, WhenWorkersOfEitherRoleGoAnswersGoOnAndRolesComeBack) {
    constexpr std::int32_t kRequests = 6;
    auto said = plain(kRequests, kLong);
    serve_apart();
    std::int32_t next = 1;
    for (const char* leaves : {"d2", "p1"}) {
        std::vector<std::pair<std::int32_t, Sink>> sinks;
        for (int i = 0; i < 3; ++i, ++next) sinks.emplace_back(next, submit(next, kLong));
        for (auto& [n, sink] : sinks) {
            EXPECT_TRUE(sink->wait_for(
                [](const RecordingSink& s) { return s.done_ || s.tokens_.size() >= 5; }, 120));
        }
        by_name_.erase(leaves);
        for (auto& [n, sink] : sinks) {
            ASSERT_TRUE(sink->wait_done(120));
            EXPECT_EQ(sink->tokens_, said[n]) << "request " << n << sink->error_;
        }
        start(leaves);
        EXPECT_TRUE(eventually(
            [&] {
                const core::ClusterView view = server_->view();
                return view.workers.size() == 4 && view.roles_kept == true;
            },
            60))
            << leaves;
    }
    // The last placement may still be on its way when its roles hold: what came before is not
    // handed over.
    EXPECT_TRUE(eventually([&] {
        const std::int64_t before = handed_over();
        const Sink last = submit(1, kLong);
        EXPECT_TRUE(last->wait_done(120));
        EXPECT_EQ(last->tokens_, said[1]);
        return handed_over() > before;
    }));
}

}  // namespace
}  // namespace helix::node::roles_cluster_test
