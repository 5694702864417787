// The link between two workers is cut while both still reach the coordinator: real sockets, with a
// proxy between the workers.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "node/cluster_fixture.h"
#include "node/tcp_proxy.h"

namespace helix::node::cut_link_test {
namespace {

using namespace test_support;
using Mode = TcpProxy::Mode;

// Plans the first half of the layers for worker a and the second for b and others, only over links
// that the cluster has.
base::Result<plan::PlanReport> halves(const spec::ClusterSpec& cluster) {
    plan::PlanReport report;
    report.placement.layers.resize(cluster.nodes.size());
    std::int32_t first = -1;
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
        const bool is_a = cluster.nodes[i].name == "a";
        report.placement.layers[i] = is_a ? spec::LayerRange{0, 6} : spec::LayerRange{6, 12};
        if (is_a) first = static_cast<std::int32_t>(i);
    }
    if (first < 0) return base::Error{base::Errc::unavailable, "a is missing"};
    for (const spec::LinkSpec& link : cluster.links) {
        if (link.from != first || link.to == spec::kCoordinator) continue;
        report.flows.push_back({first, link.to, 4});
        report.flows.push_back({link.to, spec::kCoordinator, 4});
        report.max_flow_tokens_per_s += 4;
    }
    if (report.flows.empty()) {
        return base::Error{base::Errc::unavailable, "no links lead through all layers"};
    }
    report.flows.push_back({spec::kCoordinator, first, report.max_flow_tokens_per_s});
    return report;
}

class CutLink : public ::testing::Test {
  protected:
    // The others reach b only through the proxy. With hosts of their own they measure their links
    // when they join.
    void serve(const std::vector<std::string>& names, const PlanFunction& planner = halves,
               bool own_hosts = true) {
        CoordinatorOptions options = modelled_coordinator(static_cast<std::int32_t>(names.size()));
        options.planner = planner;
        auto server = CoordinatorServer::start(std::move(options));
        ASSERT_TRUE(server.ok()) << server.error().message;
        server_ = std::move(*server);
        for (const std::string& name : names) {
            WorkerOptions worker = modelled_worker(name, 12, 1e-3);
            if (own_hosts) worker.host = name;
            if (name == "b") {
                worker.listen_port = port_;
                worker.peer_port = proxy_.port();
            }
            workers_[name] =
                std::make_unique<RunningWorker>(std::move(worker), cluster_address(*server_));
        }
        ASSERT_TRUE(eventually([&] { return server_->view().serving; }, 60));
    }
    void TearDown() override {
        workers_.clear();
        server_.reset();
    }

    std::vector<std::shared_ptr<RecordingSink>> submit(int count, std::int32_t tokens) {
        std::vector<std::shared_ptr<RecordingSink>> sinks;
        for (int i = 0; i < count; ++i) {
            sinks.push_back(std::make_shared<RecordingSink>());
            server_->submit(greedy({7, i}, tokens), sinks.back());
        }
        return sinks;
    }
    void expect_all(const std::vector<std::shared_ptr<RecordingSink>>& sinks, std::int32_t tokens) {
        for (std::size_t i = 0; i < sinks.size(); ++i) {
            ASSERT_TRUE(sinks[i]->wait_done(60)) << "request " << i << " hangs";
            EXPECT_EQ(sinks[i]->reason_, core::FinishReason::length)
                << sinks[i]->error_ << sinks[i]->rejection_;
            EXPECT_EQ(sinks[i]->tokens_, expected_tokens({7, static_cast<spec::Token>(i)}, tokens));
        }
    }
    bool ran_on_b(RecordingSink& sink) {
        core::Pipeline way;
        sink.wait_for([&](const RecordingSink& s) {
            way = s.pipeline_;
            return !way.empty();
        });
        return !way.empty() && name_of(way.back().worker) == "b";
    }
    std::string name_of(core::WorkerId id) {
        for (const core::WorkerView& worker : server_->view().workers) {
            if (worker.worker == id) return worker.node.name;
        }
        return "";
    }
    bool nothing_left() {
        return eventually(
            [&] {
                const core::ClusterView view = server_->view();
                return std::all_of(
                    view.workers.begin(), view.workers.end(),
                    [](const core::WorkerView& worker) { return worker.used_pages == 0; });
            },
            60);
    }
    // Requests run over the link while it is cut, and go on without it.
    void cut_and_mend(Mode how) {
        serve({"a", "b", "c"});
        const auto before = submit(6, 120);
        ASSERT_TRUE(std::any_of(before.begin(), before.end(),
                                [&](const auto& sink) { return ran_on_b(*sink); }));
        proxy_.set(how);
        ASSERT_TRUE(eventually([&] { return !server_->view().links_down.empty(); }, 60));
        expect_all(before, 120);
        const auto meanwhile = submit(4, 20);
        expect_all(meanwhile, 20);
        proxy_.set(Mode::pass);
        ASSERT_TRUE(eventually([&] { return server_->view().links_down.empty(); }, 60));
        ASSERT_TRUE(eventually(
            [&] {
                const auto after = submit(4, 20);
                expect_all(after, 20);
                return std::any_of(after.begin(), after.end(),
                                   [&](const auto& sink) { return ran_on_b(*sink); });
            },
            60))
            << "the link is not used again";
        EXPECT_TRUE(nothing_left());
    }

    std::uint16_t port_ = TcpProxy::free_port();  // of b
    TcpProxy proxy_{port_};
    std::unique_ptr<CoordinatorServer> server_;
    std::map<std::string, std::unique_ptr<RunningWorker>> workers_;
};

TEST_F(CutLink, ConnectionsThatAreClosed) {
    cut_and_mend(Mode::refuse);
}

TEST_F(CutLink, BytesThatVanish) {
    cut_and_mend(Mode::swallow);
}

TEST_F(CutLink, WithNoOtherWayRequestsWaitUntilItIsBack) {
    serve({"a", "b"});
    const auto sinks = submit(3, 80);
    proxy_.set(Mode::refuse);
    ASSERT_TRUE(eventually([&] { return !server_->view().links_down.empty(); }, 60));
    const auto more = submit(2, 10);
    ASSERT_TRUE(eventually([&] { return server_->view().waiting >= 2; }, 60));
    proxy_.set(Mode::pass);
    expect_all(sinks, 80);
    expect_all(more, 10);
    EXPECT_TRUE(nothing_left());
}

// ---- a link that carries only KV
// ---------------------------------------------------------------------------------------

// Plans the whole model for every worker, so that no rows go between them.
base::Result<plan::PlanReport> alike(const spec::ClusterSpec& cluster) {
    plan::PlanReport report;
    report.placement.layers.assign(cluster.nodes.size(), {0, 12});
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(cluster.nodes.size()); ++i) {
        report.flows.push_back({spec::kCoordinator, i, 4});
        report.flows.push_back({i, spec::kCoordinator, 4});
        report.max_flow_tokens_per_s += 4;
    }
    return report;
}

class CutKvLink : public CutLink {
  protected:
    struct Running {
        core::RequestId id;
        std::shared_ptr<RecordingSink> sink;
    };
    static constexpr std::int32_t kTokens = 250;

    core::Pipeline all_on(const std::string& name) {
        for (const core::WorkerView& worker : server_->view().workers) {
            if (worker.node.name == name) return {{worker.worker, {0, 12}}};
        }
        return {};
    }
    bool runs_on(const Running& one, const std::string& name) {
        const core::Pipeline there = all_on(name);
        bool on = false;
        one.sink->wait_for([&](const RecordingSink& s) {
            on = !s.done_ && s.pipeline_ == there;
            return true;
        });
        return on;
    }
    // Starts a request on a, which has its first tokens when this returns.
    Running one_on_a() {
        Running one;
        EXPECT_TRUE(eventually(
            [&] {
                one.sink = std::make_shared<RecordingSink>();
                const auto number = static_cast<spec::Token>(all_.size());
                one.id = server_->submit(greedy({7, number}, kTokens), one.sink);
                all_.push_back(one.sink);
                one.sink->wait_for(
                    [](const RecordingSink& s) { return s.done_ || s.tokens_.size() > 2; }, 60);
                return runs_on(one, "a");
            },
            60));
        return one;
    }
    // Moves requests from a to this worker (empty: the coordinator's choice) until the condition
    // holds.
    bool move_until(const std::string& to, const std::function<bool(const Running&)>& so) {
        Running one = one_on_a();
        return eventually(
            [&] {
                if (so(one)) return true;
                if (!runs_on(one, "a")) one = one_on_a();
                server_->move(one.id, to.empty() ? core::Pipeline() : all_on(to));
                return false;
            },
            60);
    }
    bool moved_to(const std::string& to, const std::string& asked_for) {
        return move_until(asked_for, [&](const Running& one) { return runs_on(one, to); });
    }
    void cut_and_mend(Mode how, bool used_before) {
        serve({"a", "b", "c"}, alike, false);
        ASSERT_TRUE(!used_before || moved_to("b", "b"));
        proxy_.set(how);
        ASSERT_TRUE(
            move_until("b", [&](const Running&) { return !server_->view().links_down.empty(); }));
        EXPECT_TRUE(moved_to("c", "")) << "there is another one";
        EXPECT_TRUE(server_->view().serving);
        proxy_.set(Mode::pass);
        ASSERT_TRUE(eventually([&] { return server_->view().links_down.empty(); }, 60));
        EXPECT_TRUE(moved_to("b", "b")) << "the link is not used again";
        expect_all(all_, kTokens);
        EXPECT_TRUE(nothing_left());
    }

    std::vector<std::shared_ptr<RecordingSink>> all_;
};

TEST_F(CutKvLink, ThatNobodyHasUsedYet) {
    cut_and_mend(Mode::refuse, false);
}

TEST_F(CutKvLink, OverWhichRequestsHaveMoved) {
    cut_and_mend(Mode::swallow, true);
}

// A worker that joins while it cannot reach another; later it can.
TEST_F(CutLink, ALinkThatWasNotThereAtFirst) {
    proxy_.set(Mode::refuse);
    CoordinatorOptions options = modelled_coordinator(2);
    options.planner = halves;
    auto server = CoordinatorServer::start(std::move(options));
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
    for (const char* name : {"b", "a"}) {
        WorkerOptions worker = modelled_worker(name, 12, 1e-3);
        worker.host = name;
        if (worker.name == "b") {
            worker.listen_port = port_;
            worker.peer_port = proxy_.port();
        }
        workers_[name] =
            std::make_unique<RunningWorker>(std::move(worker), cluster_address(*server_));
        const std::size_t joined = workers_.size();
        ASSERT_TRUE(eventually([&] { return server_->view().workers.size() == joined; }, 60));
    }
    ASSERT_TRUE(eventually([&] { return !server_->view().links_down.empty(); }, 60));
    EXPECT_FALSE(server_->view().serving);
    const auto sinks = submit(2, 20);
    proxy_.set(Mode::pass);
    expect_all(sinks, 20);
}

}  // namespace
}  // namespace helix::node::cut_link_test
