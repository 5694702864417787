// What a coordinator's state folder keeps of its cluster: the placement in force and who is
// drained.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "node/cluster_fixture.h"
#include "node/placement_keeper.h"
#include "node/planner_thread.h"
#include "node/tcp_proxy.h"
#include "spec/placement_file.h"

namespace helix::node::placement_restart_test {
namespace {

using ::testing::HasSubstr;
using namespace test_support;

constexpr std::int32_t kLayers = 12;
using Layers = std::map<std::string, spec::LayerRange>;

class PlacementRestart : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string name = (std::filesystem::temp_directory_path() / "helix-kept-XXXXXX").string();
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        dir_ = name;
    }
    void TearDown() override {
        stop();
        std::filesystem::remove_all(dir_);
    }

    // The coordinator goes first, so that it dies and its workers do not leave.
    void stop() {
        server_.reset();
        workers_.clear();
    }
    void start(const std::vector<std::string>& names,
               const std::function<void(CoordinatorOptions&)>& change = {}) {
        stop();
        CoordinatorOptions options = modelled_coordinator(static_cast<std::int32_t>(names.size()));
        options.state = state();
        options.core.rejoin_wait = base::from_seconds(300);
        if (change) change(options);
        auto server = CoordinatorServer::start(std::move(options));
        ASSERT_TRUE(server.ok()) << server.error().message;
        server_ = std::move(*server);
        for (const std::string& name : names) add(name);
    }
    void add(const std::string& name) {
        workers_[name] = std::make_unique<RunningWorker>(modelled_worker(name, worker_layers_),
                                                         cluster_address(*server_));
    }
    // a before b, although either could hold everything.
    FilePlacement file_placement() const {
        const std::string path = (dir_ / "placement.json").string();
        spec::PlacementFile file;
        file.n_layers = kLayers;
        file.placement.layers = {{0, 5}, {5, kLayers}};
        file.node_names = {"a", "b"};
        EXPECT_TRUE(spec::write_placement_file(path, file).ok());
        auto fixed = planner_for_file(small_model(kLayers), path);
        EXPECT_TRUE(fixed.ok()) << fixed.error().message;
        return *fixed;
    }
    static void use_file(CoordinatorOptions& options, const FilePlacement& fixed) {
        options.planner = fixed.planner;
        options.planned_workers = fixed.workers;
    }

    bool serves() {
        return eventually([&] { return server_->view().serving; }, 60);
    }
    Layers layers() const {
        Layers found;
        for (const core::WorkerView& one : server_->view().workers) {
            found[one.node.name] = one.layers;
        }
        return found;
    }
    core::WorkerView worker(const std::string& name) const {
        for (const core::WorkerView& one : server_->view().workers) {
            if (one.node.name == name) return one;
        }
        return {};
    }
    bool becomes(const std::string& name, const std::function<bool(const core::WorkerView&)>& is) {
        return eventually(
            [&] {
                const core::WorkerView one = worker(name);
                return one.node.name == name && is(one);
            },
            60);
    }
    std::vector<spec::Token> ask() {
        const auto sink = std::make_shared<RecordingSink>();
        server_->submit(greedy({5, 6, 7}, 8), sink);
        EXPECT_TRUE(sink->wait_done(60));
        return sink->tokens_;
    }
    std::string state() const { return (dir_ / "state").string(); }
    std::string database() const { return state() + "/placement.db"; }
    static std::string bytes(const std::string& path) {
        std::ifstream file(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    }

    std::filesystem::path dir_;
    std::int32_t worker_layers_ = kLayers;  // that fit into each
    std::unique_ptr<CoordinatorServer> server_;
    std::map<std::string, std::unique_ptr<RunningWorker>> workers_;
};

bool is_drained(const core::WorkerView& worker) {
    return worker.draining && worker.drained && worker.layers.empty();
}

TEST_F(PlacementRestart, ADrainedWorkerStaysDrainedUntilItIsUsedAgain) {
    start({"a", "b", "c"});
    ASSERT_TRUE(serves());
    ASSERT_TRUE(becomes("c", [](const auto&) { return true; }));
    server_->drain({worker("c").worker, false, false});
    ASSERT_TRUE(becomes("c", [](const auto& c) { return c.draining && c.drained; }));

    start({"c", "a", "b"});
    ASSERT_TRUE(serves());
    EXPECT_TRUE(becomes("c", is_drained));
    EXPECT_EQ(ask(), expected_tokens({5, 6, 7}, 8));
    EXPECT_TRUE(is_drained(worker("c")));

    start({"c", "a", "b"});  // and over another restart
    ASSERT_TRUE(serves());
    ASSERT_TRUE(becomes("c", is_drained));
    server_->drain({worker("c").worker, false, true});
    ASSERT_TRUE(becomes("c", [](const auto& c) { return !c.draining; }));

    start({"a", "b", "c"});
    ASSERT_TRUE(serves());
    EXPECT_TRUE(becomes("c", [](const auto& c) { return !c.draining; }));
}

TEST_F(PlacementRestart, AWorkerThatIsRestartedItselfStaysDrainedUntilThatIsCalledOff) {
    start({"a", "b"});
    ASSERT_TRUE(serves());
    ASSERT_TRUE(becomes("b", [](const auto&) { return true; }));
    server_->drain({worker("b").worker, false, false});
    ASSERT_TRUE(becomes("b", [](const auto& b) { return b.draining && b.drained; }));
    start({"a", "b"});
    ASSERT_TRUE(becomes("b", is_drained));
    workers_.erase("b");
    ASSERT_TRUE(eventually([&] { return server_->view().drained_away.size() == 1; }, 60));
    add("b");
    EXPECT_TRUE(becomes("b", is_drained));
    workers_.erase("b");
    ASSERT_TRUE(eventually([&] { return server_->view().drained_away.size() == 1; }, 60));
    core::DrainWorker off{{}, false, true};
    off.name = "b";
    server_->drain(off);
    ASSERT_TRUE(eventually([&] { return server_->view().drained_away.empty(); }, 60));
    add("b");
    EXPECT_TRUE(becomes("b", [](const auto& b) { return !b.draining; }));
}

// The worker is the same process, which joins again by itself.
TEST_F(PlacementRestart, AConnectionThatBreaksDoesNotEndADrain) {
    start({"a"});
    ASSERT_TRUE(serves());
    TcpProxy proxy(server_->join_info().cluster_port);
    workers_["b"] = std::make_unique<RunningWorker>(modelled_worker("b", worker_layers_),
                                                    "127.0.0.1:" + std::to_string(proxy.port()));
    ASSERT_TRUE(becomes("b", [](const auto&) { return true; }));
    server_->drain({worker("b").worker, false, false});
    ASSERT_TRUE(becomes("b", [](const auto& b) { return b.draining && b.drained; }));
    const std::uint64_t before = worker("b").incarnation;
    proxy.set(TcpProxy::Mode::refuse);
    ASSERT_TRUE(eventually([&] { return server_->view().drained_away.size() == 1; }, 60));
    proxy.set(TcpProxy::Mode::pass);
    EXPECT_TRUE(becomes(
        "b", [&](const auto& b) { return b.incarnation > before && b.draining && b.drained; }));
    EXPECT_EQ(ask(), expected_tokens({5, 6, 7}, 8));
}

TEST_F(PlacementRestart, APlacementThatIsGivenWinsOverTheOneThatWasKept) {
    const FilePlacement fixed = file_placement();
    start({"a", "b"});
    ASSERT_TRUE(serves());
    ASSERT_TRUE(server_->last_plan().has_value());

    const Layers wanted = {{"a", {0, 5}}, {"b", {5, kLayers}}};
    start({"b", "a"}, [&](CoordinatorOptions& options) { use_file(options, fixed); });
    ASSERT_TRUE(serves());
    EXPECT_TRUE(eventually([&] { return layers() == wanted; }, 60));
    EXPECT_EQ(ask(), expected_tokens({5, 6, 7}, 8));

    start({"b", "a"});  // without it: it is what was in force last
    ASSERT_TRUE(serves());
    EXPECT_TRUE(eventually([&] { return layers() == wanted; }, 60));
    EXPECT_FALSE(server_->last_plan().has_value()) << "nothing was planned";
    EXPECT_EQ(ask(), expected_tokens({5, 6, 7}, 8));
}

TEST_F(PlacementRestart, AWorkerThatTheGivenPlacementNeedsIsNotDrainedAnyMore) {
    const FilePlacement fixed = file_placement();
    start({"a", "b", "c"});
    ASSERT_TRUE(serves());
    for (const char* name : {"b", "c"}) {
        ASSERT_TRUE(becomes(name, [](const auto&) { return true; }));
        server_->drain({worker(name).worker, false, false});
        ASSERT_TRUE(becomes(name, [](const auto& w) { return w.draining && w.drained; }));
    }
    ::testing::internal::CaptureStderr();
    start({"a", "b", "c"}, [&](CoordinatorOptions& options) { use_file(options, fixed); });
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_THAT(said, HasSubstr("worker b was drained before the restart"));
    ASSERT_TRUE(serves());
    EXPECT_TRUE(becomes("b", [](const auto& b) {
        return !b.draining && b.layers == spec::LayerRange{5, kLayers};
    }));
    EXPECT_TRUE(becomes("c", is_drained));
}

TEST_F(PlacementRestart, AnotherModelIsPlannedAndDrainsHoldForItToo) {
    worker_layers_ = 8;  // it takes two
    start({"a", "b", "c"});
    ASSERT_TRUE(serves());
    ASSERT_TRUE(becomes("c", [](const auto&) { return true; }));
    server_->drain({worker("c").worker, false, false});
    ASSERT_TRUE(becomes("c", [](const auto& c) { return c.draining && c.drained; }));

    const auto other = [](CoordinatorOptions& options) {
        spec::ModelSpec model = small_model(14);
        model.name = "another";
        options.model = modelled_model(model, kVocab);
    };
    ::testing::internal::CaptureStderr();
    start({"a", "b", "c"}, other);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_THAT(said, HasSubstr("is of another model"));
    EXPECT_THAT(said, HasSubstr("paper-thin"));
    EXPECT_THAT(said, HasSubstr("another"));
    ASSERT_TRUE(serves());
    EXPECT_TRUE(server_->last_plan().has_value());
    EXPECT_EQ(ask(), expected_tokens({5, 6, 7}, 8, 14));
    EXPECT_TRUE(becomes("c", is_drained));

    start({"a", "b"}, other);  // now that one is kept
    ASSERT_TRUE(serves());
    EXPECT_FALSE(server_->last_plan().has_value());
}

TEST_F(PlacementRestart, ADamagedFileIsNamedLeftAsItIsAndDoesNotKeepTheClusterFromServing) {
    start({"a"});
    ASSERT_TRUE(serves());
    stop();
    const std::string damaged = "SQLite format 3, but no more than this";
    std::ofstream(database(), std::ios::binary | std::ios::trunc) << damaged;
    ::testing::internal::CaptureStderr();
    start({"a"});
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_THAT(said, HasSubstr(database()));
    EXPECT_THAT(said, HasSubstr("it is left as it is"));
    ASSERT_TRUE(serves());
    EXPECT_TRUE(server_->last_plan().has_value());
    EXPECT_EQ(ask(), expected_tokens({5, 6, 7}, 8));
    stop();
    EXPECT_EQ(bytes(database()), damaged);
}

TEST_F(PlacementRestart, AKeptPlacementThatMakesNoSenseIsNamedAndNotUsed) {
    const ServedModel model = modelled_model(small_model(kLayers), kVocab);
    {
        auto keeper = PlacementKeeper::open(state(), model);
        ASSERT_TRUE(keeper.ok()) << keeper.error().message;
        core::RememberedPlacement gap;  // nobody holds layer 5
        gap.holders = {{"a", {0, 5}, 100}, {"b", {6, kLayers}, 100}};
        (*keeper)->keep(gap);
        (*keeper)->keep_drains({{"den", true}});
    }
    ::testing::internal::CaptureStderr();
    const auto keeper = PlacementKeeper::open(state(), model);
    const std::string said = ::testing::internal::GetCapturedStderr();
    ASSERT_TRUE(keeper.ok());
    EXPECT_FALSE((*keeper)->remembered().has_value());
    EXPECT_THAT(said, HasSubstr(database()));
    EXPECT_THAT(said, HasSubstr("nobody holds layer 5"));
    EXPECT_EQ((*keeper)->drains(), (std::vector<core::RememberedDrain>{{"den", true}}));
}

}  // namespace
}  // namespace helix::node::placement_restart_test
