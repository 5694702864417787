#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "core/coordinator/coordinator.h"
#include "core/invariants.h"

namespace helix::core::coordinator_restore_test {
namespace {

constexpr std::int32_t kLayers = 6;

CoordinatorConfig config(std::optional<RememberedPlacement> remembered = {}) {
    CoordinatorConfig config;
    config.n_layers = kLayers;
    config.context_length = 128;
    config.block_size = 4;
    config.rejoin_wait = base::from_seconds(3);
    config.remembered = std::move(remembered);
    return config;
}

// A chain a -> b -> c of two layers each, and d that holds nothing.
RememberedPlacement chain() {
    RememberedPlacement placement;
    placement.holders = {{"a", {0, 2}, 100}, {"b", {2, 4}, 100}, {"c", {4, 6}, 100}, {"d", {}, 9}};
    placement.flows = {{"", "a", 7}, {"a", "b", 7}, {"b", "c", 7}, {"c", "", 7}};
    return placement;
}

// A coordinator whose workers load what they are told, at once, and whose planner's questions are
// kept for the test to answer.
class Restart {
  public:
    explicit Restart(std::optional<RememberedPlacement> remembered,
                     std::vector<RememberedDrain> drains = {})
        : coordinator_(with_drains(config(std::move(remembered)), std::move(drains))) {}

    void join(const std::string& name, std::int64_t memory_bytes = 100) {
        WorkerJoined joined;
        joined.worker = ids_.try_emplace(name, next_id_).first->second;
        if (joined.worker == next_id_) ++next_id_.value;
        joined.incarnation = ++incarnations_[name];
        joined.node.name = name;
        joined.node.memory_bytes = memory_bytes;
        step(joined);
    }
    void lose(const std::string& name) { step(WorkerLost{ids_.at(name), "was lost"}); }
    void tick(Duration time = base::from_ms(50)) {
        now_ = now_ + time;
        step(CoordinatorTick{});
    }
    // Answers with the whole model for the first worker of the question and nothing for the others.
    void answer() {
        ASSERT_TRUE(question);
        Planned planned;
        planned.plan = question->plan;
        planned.placement.layers.resize(question->workers.size());
        planned.placement.layers.front() = {0, kLayers};
        planned.flows = {{spec::kCoordinator, 0, 50}, {0, spec::kCoordinator, 50}};
        question.reset();
        step(planned);
    }
    void refuse() {
        ASSERT_TRUE(question);
        const std::uint64_t plan = question->plan;
        question.reset();
        step(NotPlanned{plan, "they are too small"});
    }
    void undrain(const std::string& name) { step(DrainWorker{ids_.at(name), false, true}); }
    void step(const CoordinatorEvent& event) {
        std::vector<CoordinatorAction> actions;
        coordinator_.step(now_, event, actions);
        EXPECT_EQ(broken_invariant(coordinator_), "");
        for (const CoordinatorAction& action : actions) {
            if (const auto* plan = std::get_if<PlanCluster>(&action)) question = *plan;
            if (const auto* report = std::get_if<Report>(&action)) said += report->text + "\n";
            if (const auto* drained = std::get_if<WorkerDrained>(&action)) {
                (drained->remove ? dismissed : drained_only).insert(name_of(drained->worker));
            }
            const auto* sent = std::get_if<SendToWorker>(&action);
            if (sent == nullptr) continue;
            const auto* assign = std::get_if<AssignLayers>(&sent->message);
            if (assign != nullptr) loads(sent->worker, *assign);
        }
    }
    // The layers that the question says the worker holds.
    LayerRange current(const std::string& name) const {
        for (std::size_t i = 0; i < question->workers.size(); ++i) {
            if (question->workers[i] == ids_.at(name)) return question->current.layers[i];
        }
        ADD_FAILURE() << name << " is not in the question";
        return {};
    }
    LayerRange layers(const std::string& name) const {
        for (const WorkerView& worker : coordinator_.view().workers) {
            if (worker.node.name == name) return worker.layers;
        }
        return {};
    }
    WorkerView worker(const std::string& name) const {
        for (const WorkerView& worker : coordinator_.view().workers) {
            if (worker.node.name == name) return worker;
        }
        ADD_FAILURE() << name << " is not here";
        return {};
    }
    const Coordinator& coordinator() const { return coordinator_; }
    bool serving() const { return coordinator_.view().serving; }

    std::set<std::string> broken;  // cannot load
    std::set<std::string> slow;    // do not answer
    std::optional<PlanCluster> question;
    std::string said;
    std::set<std::string> drained_only;  // WorkerDrained was said of them
    std::set<std::string> dismissed;     // with remove

  private:
    static CoordinatorConfig with_drains(CoordinatorConfig config,
                                         std::vector<RememberedDrain> drains) {
        config.remembered_drains = std::move(drains);
        return config;
    }
    std::string name_of(WorkerId worker) const {
        for (const auto& [name, id] : ids_) {
            if (id == worker) return name;
        }
        return "";
    }
    void loads(WorkerId worker, const AssignLayers& assign) {
        for (const auto& [name, id] : ids_) {
            if (id != worker || slow.contains(name)) continue;
            if (broken.contains(name) && !assign.layers.empty()) {
                step(FromWorker{worker, LayersFailed{assign.epoch, "no memory"}});
            } else {
                step(FromWorker{worker, LayersReady{assign.epoch, assign.layers, 400, 0, "x"}});
            }
        }
    }

    TimePoint now_;
    Coordinator coordinator_;
    std::map<std::string, WorkerId> ids_;
    WorkerId next_id_;
    std::map<std::string, std::uint64_t> incarnations_;
};

TEST(CoordinatorRestore, WhenAllAreBackItIsInForceWithoutPlanning) {
    Restart run(chain());
    for (const char* name : {"c", "a"}) run.join(name);  // in another order than before
    run.tick(base::from_seconds(1));
    EXPECT_FALSE(run.serving());
    EXPECT_FALSE(run.question) << "b is still waited for";
    run.join("b");
    run.tick();
    EXPECT_TRUE(run.serving()) << run.said;
    EXPECT_EQ(run.layers("a"), (LayerRange{0, 2}));
    EXPECT_EQ(run.layers("b"), (LayerRange{2, 4}));
    EXPECT_EQ(run.layers("c"), (LayerRange{4, 6}));
    run.tick(base::from_seconds(9));
    EXPECT_FALSE(run.question);
    ASSERT_NE(run.coordinator().placement_in_force(), nullptr);
    RememberedPlacement again = *run.coordinator().placement_in_force();
    EXPECT_EQ(again.flows, chain().flows);
    EXPECT_EQ(again.holders.size(), 3U);
    EXPECT_TRUE(check_remembered(again, kLayers).ok());
}

TEST(CoordinatorRestore, WhatWasInForceIsWhatTheNextOneTakesUp) {
    Restart first(std::nullopt);
    EXPECT_EQ(first.coordinator().placement_in_force(), nullptr);
    for (const char* name : {"a", "b"}) first.join(name);
    first.tick(base::from_seconds(1));
    first.answer();
    ASSERT_NE(first.coordinator().placement_in_force(), nullptr);
    EXPECT_EQ(first.coordinator().epoch(), 1U);
    Restart second(*first.coordinator().placement_in_force());
    for (const char* name : {"b", "a"}) second.join(name);
    second.tick();
    EXPECT_TRUE(second.serving());
    EXPECT_FALSE(second.question);
    EXPECT_EQ(second.layers("a"), (LayerRange{0, kLayers}));
    EXPECT_EQ(second.layers("b"), LayerRange{});
}

TEST(CoordinatorRestore, WithoutAllOfThemItIsPlannedFromWhatTheyHeld) {
    Restart run(chain());
    for (const char* name : {"a", "c"}) run.join(name);
    run.tick();
    run.tick(base::from_ms(2900));
    EXPECT_FALSE(run.question) << "b may still come";
    run.tick(base::from_ms(200));
    ASSERT_TRUE(run.question) << run.said;
    EXPECT_EQ(run.current("a"), (LayerRange{0, 2}));
    EXPECT_EQ(run.current("c"), (LayerRange{4, 6}));
    run.answer();
    EXPECT_TRUE(run.serving());
    run.join("b");  // late; a has been given other layers, b not yet
    run.tick(base::from_seconds(1));
    ASSERT_TRUE(run.question);
    EXPECT_EQ(run.current("a"), (LayerRange{0, kLayers}));
    EXPECT_EQ(run.current("b"), (LayerRange{2, 4}));
    EXPECT_EQ(run.current("c"), LayerRange{});
}

TEST(CoordinatorRestore, AWorkerWithLessMemoryIsPlannedAnewAtOnce) {
    Restart run(chain());
    run.join("a");
    run.join("b", 89);
    run.tick(base::from_ms(400));
    ASSERT_TRUE(run.question);
    EXPECT_EQ(run.current("b"), (LayerRange{2, 4}));
    EXPECT_NE(run.said.find("worker b has less memory than it had"), std::string::npos);
}

TEST(CoordinatorRestore, AWorkerThatCannotLoadAnyMoreIsPlannedAround) {
    Restart run(chain());
    run.broken = {"b"};
    for (const char* name : {"a", "b", "c"}) run.join(name);
    run.tick();
    EXPECT_FALSE(run.serving());
    run.tick(base::from_seconds(1));
    ASSERT_TRUE(run.question);
    EXPECT_EQ(run.question->workers.size(), 2U);
    EXPECT_EQ(run.current("c"), (LayerRange{4, 6}));
    run.answer();
    EXPECT_TRUE(run.serving());
}

TEST(CoordinatorRestore, AWorkerThatIsLostAgainMeanwhileIsWaitedFor) {
    Restart run(chain());
    run.slow = {"b"};
    for (const char* name : {"a", "b", "c"}) run.join(name);
    run.tick();
    run.lose("b");
    run.slow.clear();
    run.tick(base::from_ms(500));
    EXPECT_FALSE(run.question);
    run.join("b");
    run.tick();
    EXPECT_TRUE(run.serving());
    EXPECT_FALSE(run.question);
}

TEST(CoordinatorRestore, WhoeverIsNewIsPlannedForAfterwards) {
    Restart run(chain());
    for (const char* name : {"a", "b", "new", "c"}) run.join(name);
    run.tick();
    EXPECT_TRUE(run.serving());
    EXPECT_EQ(run.layers("new"), LayerRange{});
    run.tick(base::from_seconds(1));
    ASSERT_TRUE(run.question);
    EXPECT_EQ(run.question->workers.size(), 4U);
}

// ---- drains
// ---------------------------------------------------------------------------------------

using Drains = std::vector<RememberedDrain>;

TEST(CoordinatorRestore, AWorkerThatWasDrainedStaysDrained) {
    Restart run(chain(), {{"d", false}});
    for (const char* name : {"d", "a", "b", "c"}) run.join(name);
    run.tick();
    EXPECT_TRUE(run.serving()) << run.said;
    EXPECT_TRUE(run.worker("d").draining && run.worker("d").drained);
    EXPECT_EQ(run.drained_only, std::set<std::string>{"d"});
    run.tick(base::from_seconds(9));
    EXPECT_FALSE(run.question) << "nothing is to be planned with it";
    EXPECT_EQ(run.coordinator().drains(), (Drains{{"d", false}}));
    run.undrain("d");
    EXPECT_TRUE(run.coordinator().drains().empty());
    run.tick(base::from_seconds(1));
    ASSERT_TRUE(run.question);
    EXPECT_EQ(run.question->workers.size(), 4U);
}

TEST(CoordinatorRestore, AWorkerThatWasBeingEmptiedServesUntilOthersHaveItsLayers) {
    Restart run(chain(), {{"b", true}});
    run.join("b");
    run.tick(base::from_seconds(1));
    EXPECT_TRUE(run.dismissed.empty()) << "it holds layers that are needed";
    for (const char* name : {"a", "c"}) run.join(name);
    run.tick();
    EXPECT_TRUE(run.serving()) << run.said;
    EXPECT_EQ(run.layers("b"), (LayerRange{2, 4}));
    EXPECT_TRUE(run.dismissed.empty());
    run.tick(base::from_seconds(1));
    ASSERT_TRUE(run.question);
    EXPECT_EQ(run.question->workers.size(), 2U) << "planned without it";
    run.answer();
    run.tick();
    EXPECT_TRUE(run.serving());
    EXPECT_EQ(run.dismissed, std::set<std::string>{"b"});
    run.lose("b");
    EXPECT_TRUE(run.coordinator().drains().empty());
}

TEST(CoordinatorRestore, ADrainThatCannotBeIsRefusedAfterTheRestartToo) {
    Restart run(chain(), {{"b", true}});
    for (const char* name : {"a", "b", "c"}) run.join(name);
    run.tick();
    run.tick(base::from_seconds(1));
    run.refuse();
    EXPECT_TRUE(run.serving());
    EXPECT_FALSE(run.worker("b").draining);
    EXPECT_EQ(run.worker("b").drain_refused, "they are too small");
    EXPECT_TRUE(run.dismissed.empty());
    EXPECT_TRUE(run.coordinator().drains().empty());
}

TEST(CoordinatorRestore, AWorkerThatIsNeededMoreThanBeforeIsNotDrained) {
    Restart run(chain(), {{"b", true}});
    for (const char* name : {"a", "b"}) run.join(name);  // c does not come back
    run.tick();
    run.tick(base::from_ms(3100));
    ASSERT_TRUE(run.question) << run.said;
    EXPECT_EQ(run.question->workers.size(), 1U);
    run.refuse();
    EXPECT_TRUE(run.dismissed.empty());
    run.tick(base::from_seconds(1));
    ASSERT_TRUE(run.question);
    EXPECT_EQ(run.question->workers.size(), 2U) << "with b";
    run.answer();
    EXPECT_TRUE(run.serving());
}

TEST(CoordinatorRestore, ARemovalOutlivesRestartsThatItsWorkerMissesAndEndsWhenItHasLeft) {
    Restart first(chain(), {{"late", true}});
    for (const char* name : {"a", "b", "c"}) first.join(name);
    first.tick();
    EXPECT_EQ(first.coordinator().drains(), (Drains{{"late", true}}));
    Restart second(chain(), first.coordinator().drains());
    second.join("late");
    EXPECT_TRUE(second.worker("late").draining && second.worker("late").remove);
    EXPECT_EQ(second.coordinator().drains(), (Drains{{"late", true}}));
    second.tick();
    EXPECT_EQ(second.dismissed, std::set<std::string>{"late"});
    second.lose("late");
    EXPECT_TRUE(second.coordinator().drains().empty());
    second.join("late");
    EXPECT_FALSE(second.worker("late").draining) << "it was started again";
}

TEST(CoordinatorRestore, ADrainOutlivesRestartsOfBoth) {
    Restart first(chain(), {{"d", false}});
    for (const char* name : {"a", "b", "c", "d"}) first.join(name);
    first.tick();
    first.lose("d");
    EXPECT_EQ(first.coordinator().drains(), (Drains{{"d", false}}));
    first.join("d");
    EXPECT_TRUE(first.worker("d").draining);
    first.lose("d");
    Restart second(chain(), first.coordinator().drains());
    for (const char* name : {"a", "b", "c", "d"}) second.join(name);
    second.tick();
    EXPECT_TRUE(second.serving());
    EXPECT_TRUE(second.worker("d").draining && second.worker("d").drained);
}

TEST(CoordinatorRestore, WithoutAPlacementFromBeforeADrainedWorkerIsNotPlannedWith) {
    Restart run(std::nullopt, {{"b", false}});
    for (const char* name : {"a", "b"}) run.join(name);
    run.tick(base::from_seconds(1));
    ASSERT_TRUE(run.question);
    EXPECT_EQ(run.question->workers.size(), 1U);
    run.answer();
    EXPECT_TRUE(run.serving());
    EXPECT_EQ(run.layers("b"), LayerRange{});
    EXPECT_EQ(run.drained_only, std::set<std::string>{"b"});
}

TEST(RememberedPlacement, WhatCannotBeOneIsNamed) {
    const auto fault = [](const RememberedPlacement& placement) {
        const base::Status status = check_remembered(placement, kLayers);
        return status.ok() ? "" : status.error().message;
    };
    EXPECT_EQ(fault(chain()), "");
    RememberedPlacement bad = chain();
    bad.holders[1].layers = {2, 3};
    EXPECT_EQ(fault(bad), "nobody holds layer 3");
    bad = chain();
    bad.holders[2].layers = {4, 7};
    EXPECT_EQ(fault(bad), "worker c has layers 4 to 7 of a model of 6");
    bad = chain();
    bad.holders[3].worker = "a";
    EXPECT_EQ(fault(bad), "worker a is named twice");
    bad = chain();
    bad.flows[1].to = "e";
    EXPECT_EQ(fault(bad), "a flow of worker e, which holds nothing");
    bad = chain();
    bad.flows[1].tokens_per_s = 0;
    EXPECT_EQ(fault(bad), "no flow from \"a\" to \"b\"");
}

}  // namespace
}  // namespace helix::core::coordinator_restore_test
