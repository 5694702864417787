// Plans that may keep KV in one of several types.

#include "lab/planning/plan_kv_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <vector>

#include "lab/simulation/simulation_setup.h"
#include "own_folder.h"

namespace helix::lab::plan_kv_types_test {
namespace {

using spec::KvType;
using testing::HasSubstr;

class PlanKvTypes : public OwnFolder {
  protected:
    void cluster(const std::string& text) {
        source_.cluster = folder_ + "/cluster.toml";
        source_.model = "llama3-8b";
        std::ofstream(source_.cluster) << text;
    }
    // Each look at the clock takes a part of a millisecond.
    PlanSession session() {
        looks_ = 0;
        return {source_,
                settings_,
                [this] { return 2e-4 * ++looks_; },
                [] { return false; },
                [](const plan::PlanProgress&) {},
                5};
    }
    KvPlan plan(const std::vector<KvType>& types) {
        auto planned = plan_kv_types(session(), types);
        EXPECT_TRUE(planned.ok()) << planned.error().message;
        return std::move(planned).value();
    }
    ProblemSource source_;
    PlanSettings settings_;
    std::atomic<int> looks_ = 0;  // the search asks from several threads
};

// Besides the weights there is room for some sixty conversations of f16, which compute could serve
// many more of.
constexpr const char* kShortOfMemory = R"(name = "one"
[[machines]]
name = "only"
type = "RTX 4090"
[links]
default = {bandwidth = "10 Gbit/s", latency = "50 us"}
)";

TEST_F(PlanKvTypes, WhereMemoryIsShortTheSmallerTypeIsTaken) {
    cluster(kShortOfMemory);
    const KvPlan planned = plan({KvType::f16, KvType::q8});
    EXPECT_EQ(planned.problem.kv_type, KvType::q8);
    EXPECT_EQ(planned.report.kv_type, KvType::q8);
    EXPECT_EQ(planned.problem.model.kv_bytes_per_token_layer, 2 * 8 * (128 + 4));
    ASSERT_FALSE(planned.report.notes.empty());
    EXPECT_THAT(planned.report.notes.back(), HasSubstr(" in f16"));
    EXPECT_THAT(planned.report.notes.back(), HasSubstr(" in q8"));
    EXPECT_EQ(placement_file(planned.problem, planned.report).kv_type, KvType::q8);
}

// The cluster is the same, but nobody asks for other types.
TEST_F(PlanKvTypes, UnaskedItIsF16AndThePlanSaysNothingOfIt) {
    cluster(kShortOfMemory);
    const auto problem = load_problem(source_);
    ASSERT_TRUE(problem.ok()) << problem.error().message;
    const auto report = session().plan(*problem, 5, nullptr);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(problem->model.kv_bytes_per_token_layer, 2 * 8 * 128 * 2);
    EXPECT_FALSE(report->kv_type);
    EXPECT_FALSE(placement_file(*problem, *report).kv_type);
    EXPECT_EQ(plan({KvType::f16}).report.kv_type, KvType::f16) << "one that is asked for is said";
}

// Two machines that hold the model only together: the link between them is what limits the flow.
TEST_F(PlanKvTypes, WhereItGainsNothingTheFirstTypeStays) {
    settings_.options.objective = plan::Objective::flow;
    cluster(R"(name = "two"
[[machines]]
name = "pair"
type = "RTX 3060"
count = 2
[links]
default = {bandwidth = "10 Mbit/s", latency = "1 ms"}
)");
    EXPECT_EQ(plan({KvType::f16, KvType::q8}).problem.kv_type, KvType::f16);
    EXPECT_EQ(plan({KvType::q8, KvType::f16}).problem.kv_type, KvType::q8);
}

TEST_F(PlanKvTypes, ALayoutOfAnotherTypeIsRefused) {
    cluster(kShortOfMemory);
    source_.kv_type = KvType::q8;
    const auto problem = load_problem(source_);
    ASSERT_TRUE(problem.ok()) << problem.error().message;
    spec::PlacementFile file;
    file.n_layers = problem->model.n_layers;
    file.placement.layers = {{0, file.n_layers}};
    const std::string path = folder_ + "/plan.json";
    for (const auto type : {std::optional<KvType>(), std::optional(KvType::q8)}) {
        file.kv_type = type;
        ASSERT_TRUE(spec::write_placement_file(path, file).ok());
        EXPECT_TRUE(read_layout(path, *problem).ok());
        EXPECT_TRUE(read_simulated_layout(path, *problem).ok());
        EXPECT_EQ(layout_kv_type(path).value(), type);
    }
    file.kv_type = KvType::f16;
    ASSERT_TRUE(spec::write_placement_file(path, file).ok());
    for (const auto& read : {read_layout(path, *problem), read_simulated_layout(path, *problem)}) {
        ASSERT_FALSE(read.ok());
        EXPECT_EQ(read.error().message, path + ": is planned for KV in f16, not in q8");
    }
}

}  // namespace
}  // namespace helix::lab::plan_kv_types_test
