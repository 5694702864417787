// What changes would do to a cluster that serves.

#include "lab/planning/served_what_if.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <nlohmann/json.hpp>

#include "plan/predict/performance.h"

namespace helix::lab::served_what_if_test {
namespace {

// Machines that measured themselves, as those of a served cluster did: two that hold half each.
class ServedWhatIfTest : public ::testing::Test {
  protected:
    ServedWhatIfTest() {
        served_.model.name = "little";
        served_.model.n_layers = 12;
        served_.model.layer_bytes = 1'000'000;
        served_.model.embedding_bytes = 500'000;
        served_.model.head_bytes = 500'000;
        served_.model.activation_bytes_per_token = 1024;
        served_.model.kv_bytes_per_token_layer = 512;
        served_.model.flops_per_token_layer = 2e6;
        served_.model.context_length = 512;
        served_.cluster.name = "the cluster";
        add("atlas", 1e-3, {0, 6});
        add("den", 1e-3, {6, 12});
        for (std::int32_t from = -1; from < 2; ++from) {
            for (std::int32_t to = -1; to < 2; ++to) {
                if (from != to) served_.cluster.links.push_back({from, to, 1e8, 1e-3});
            }
        }
        watch_ = {[this] { return 0.01 * ++looks_; }, [this] { return stopped_.load(); },
                  [this](const ServedProgress& progress) {
                      told_.push_back(progress);
                      if (progress.phase == stop_at_) stopped_ = true;
                  }};
    }
    void add(const std::string& name, double decode_s, spec::LayerRange layers) {
        spec::NodeSpec node;
        node.name = name;
        node.type = "cpu";
        node.memory_bytes = 64'000'000;
        node.decode_s_per_layer = decode_s;
        node.decode_batch_s_per_layer = 2 * decode_s;
        node.prefill_s_per_token_layer = decode_s / 5;
        served_.cluster.nodes.push_back(node);
        served_.placement.layers.push_back(layers);
    }
    base::Result<ServedAnswer> ask(std::vector<plan::Change> changes, bool suggest = false) {
        question_ = {std::move(changes), suggest, 10};
        return answer_served_what_if(served_, question_, watch_);
    }
    nlohmann::json json_of(const ServedAnswer& answer) const {
        return nlohmann::json::parse(served_what_if_json(question_, answer, 1.5));
    }

    ServedPlan served_;
    ServedQuestion question_;
    ServedWatch watch_;
    std::atomic<int> looks_ = 0;
    std::atomic<bool> stopped_ = false;
    std::string stop_at_ = "never";
    std::vector<ServedProgress> told_;
};

// Another machine like the two: no flow goes past a bound of all, and all three have work.
TEST_F(ServedWhatIfTest, AnotherMachineServesMore) {
    const auto answer = ask({plan::AddMachines{"cpu", "", 1, {}}});
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    const double today = answer->today.report.max_flow_tokens_per_s;
    const double after = answer->what_if.report.max_flow_tokens_per_s;
    EXPECT_GT(after, 1.2 * today);
    EXPECT_LT(after, 1.6 * today);
    EXPECT_LE(after, answer->what_if.report.upper_bound_tokens_per_s * (1 + 1e-6));
    ASSERT_TRUE(answer->planned_anew);
    EXPECT_NEAR(answer->planned_anew->report.max_flow_tokens_per_s, today, 0.05 * today);
    const nlohmann::json json = json_of(*answer);
    EXPECT_EQ(json["what_if"]["machines"][2]["name"], "new-cpu");
    EXPECT_EQ(json["what_if"]["machines"][2]["is_new"], true);
    EXPECT_EQ(json["what_if"]["machines"][0]["is_new"], false);
    EXPECT_EQ(json["apply"]["possible"], false);
    EXPECT_NE(json["apply"]["reason"].get<std::string>().find("add cpu"), std::string::npos);
    EXPECT_GT(json["moved_bytes"].get<double>(), 0);
}

// Both sides run the same load, and keep up with it.
TEST_F(ServedWhatIfTest, BothSidesAreSimulatedUnderTheSameLoad) {
    const auto answer = ask({plan::AddMachines{"cpu", "", 2, {}}});
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    ASSERT_TRUE(answer->today.simulated) << answer->today.not_simulated;
    ASSERT_TRUE(answer->what_if.simulated) << answer->what_if.not_simulated;
    const SimulatedSide& today = *answer->today.simulated;
    const SimulatedSide& after = *answer->what_if.simulated;
    EXPECT_GT(today.offered_tokens_per_s, 0);
    EXPECT_EQ(today.offered_tokens_per_s, after.offered_tokens_per_s);
    EXPECT_GT(after.saturated_tokens_per_s, 1.3 * today.saturated_tokens_per_s);
    for (const SimulatedSide* side : {&today, &after}) {
        EXPECT_NEAR(side->served_tokens_per_s, side->offered_tokens_per_s,
                    0.1 * side->offered_tokens_per_s);
        EXPECT_GT(side->ttft.count, 10U);
        EXPECT_GT(side->tpot.mean, 12e-3) << "no faster than alone";
    }
    ASSERT_TRUE(answer->today.report.alone);
    // Twelve layers of a millisecond each, and three ways of a millisecond.
    EXPECT_GE(answer->today.report.alone->tpot_s, 12e-3);
    EXPECT_LT(answer->today.report.alone->tpot_s, 18e-3);
    EXPECT_GT(answer->mean_prompt_tokens, 0);
    EXPECT_LE(answer->mean_prompt_tokens + answer->mean_output_tokens, 512);
}

// The coordinator goes on with its policy whatever its machines, so both sides are served by it.
TEST_F(ServedWhatIfTest, BothSidesAreServedByTheClustersPolicy) {
    const auto usual = ask({plan::AddMachines{"cpu", "", 1, {}}});
    ASSERT_TRUE(usual.ok()) << usual.error().message;
    served_.policy.prefill_share = 0.02;
    const auto own = ask({plan::AddMachines{"cpu", "", 1, {}}});
    ASSERT_TRUE(own.ok()) << own.error().message;
    EXPECT_EQ(own->today.report.policy, served_.policy);
    EXPECT_EQ(own->what_if.report.policy, served_.policy);
    ASSERT_TRUE(usual->today.simulated && own->today.simulated);
    EXPECT_NE(own->today.simulated->saturated_tokens_per_s,
              usual->today.simulated->saturated_tokens_per_s);
    ASSERT_TRUE(usual->what_if.simulated && own->what_if.simulated);
    EXPECT_NE(own->what_if.simulated->saturated_tokens_per_s,
              usual->what_if.simulated->saturated_tokens_per_s);
}

// What is predicted of a plan counts on that policy, too: with all of the memory for new requests
// more of them run.
TEST_F(ServedWhatIfTest, AllSidesArePredictedUnderTheClustersPolicy) {
    served_.policy.kv_high_water = 1;
    const auto answer = ask({plan::AddMachines{"cpu", "", 1, {}}});
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    ASSERT_TRUE(answer->planned_anew);
    for (const ServedSide* side : {&answer->today, &*answer->planned_anew, &answer->what_if}) {
        const plan::Problem problem{side->problem.cluster, side->problem.model,
                                    side->problem.capacities};
        const auto requests = [&](const plan::PerformanceOptions& options) {
            const plan::PerformanceModel model(problem, side->problem.costs(), options);
            return model.predict(side->report.placement.layers, side->report.flows).kv_requests;
        };
        plan::PerformanceOptions own;
        own.policy = served_.policy;
        ASSERT_TRUE(side->report.prediction);
        EXPECT_EQ(side->report.policy, served_.policy);
        EXPECT_DOUBLE_EQ(side->report.prediction->kv_requests, requests(own));
        EXPECT_GT(requests(own), 1.01 * requests({}));
    }
}

TEST_F(ServedWhatIfTest, ASlowMachineTakesTheFlowWithIt) {
    const auto answer = ask({plan::SlowMachine{"den", 4}});
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    const plan::PlanReport& after = answer->what_if.report;
    EXPECT_LT(after.max_flow_tokens_per_s, answer->today.report.max_flow_tokens_per_s);
    EXPECT_LT(after.node_flow[1], after.node_flow[0]) << "the slow one has less to do";
    EXPECT_EQ(json_of(*answer)["apply"]["possible"], false);
}

TEST_F(ServedWhatIfTest, ANarrowLinkIsInTheCut) {
    served_.cluster.nodes[0].memory_bytes = served_.cluster.nodes[1].memory_bytes = 9'000'000;
    const auto answer = ask({plan::SetLink{"atlas:den", 20'000, {}}});
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    const nlohmann::json json = json_of(*answer);
    ASSERT_FALSE(json["what_if"]["min_cut"].empty());
    EXPECT_EQ(json["what_if"]["min_cut"][0]["kind"], "link") << json["what_if"]["min_cut"];
    EXPECT_LT(json["what_if"]["max_flow_tokens_per_s"].get<double>(), 25);
}

// One machine has room for all layers, so the cluster serves on without the other.
TEST_F(ServedWhatIfTest, APlanWithoutAMachineCanBeApplied) {
    const auto answer = ask({plan::RemoveMachine{"den"}});
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    const nlohmann::json apply = json_of(*answer)["apply"];
    EXPECT_EQ(apply["possible"], true);
    EXPECT_EQ(apply["drain"], nlohmann::json::array({"den"}));
    EXPECT_EQ(apply["layers"]["atlas"], (nlohmann::json{0, 12}));
    EXPECT_EQ(apply["layers"].size(), 1U);
}

TEST_F(ServedWhatIfTest, WithoutTheOnlyMachinesThatHoldALayerNothingServes) {
    served_.cluster.nodes[0].memory_bytes = served_.cluster.nodes[1].memory_bytes = 9'000'000;
    const auto answer = ask({plan::RemoveMachine{"den"}});
    ASSERT_FALSE(answer.ok());
    EXPECT_NE(answer.error().message.find("with these changes"), std::string::npos)
        << answer.error().message;
}

TEST_F(ServedWhatIfTest, AnErrorNamesTheMachineThatIsNotThere) {
    const auto answer = ask({plan::RemoveMachine{"attic"}});
    ASSERT_FALSE(answer.ok());
    EXPECT_NE(answer.error().message.find("\"attic\" is no machine"), std::string::npos);
    const auto type = ask({plan::AddMachines{"RTX 4091", "", 1, {}}});
    ASSERT_FALSE(type.ok());
    EXPECT_NE(type.error().message.find("RTX 4091"), std::string::npos) << type.error().message;
}

TEST_F(ServedWhatIfTest, OnlyWhatHasMeasuredItselfIsSlowed) {
    const auto answer =
        ask({plan::AddMachines{"RTX 4090", "", 1, {}}, plan::SlowMachine{"new-RTX 4090", 2}});
    ASSERT_FALSE(answer.ok());
    EXPECT_NE(answer.error().message.find("slow new-RTX 4090"), std::string::npos)
        << answer.error().message;
    EXPECT_FALSE(ask({plan::SlowMachine{"den", 0}}).ok());
}

// In a simulation, too, where most of the time goes.
TEST_F(ServedWhatIfTest, ASimulationThatNobodyWaitsForIsGivenUp) {
    stop_at_ = "simulation";
    const auto answer = ask({plan::SlowMachine{"den", 2}});
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.error().code, base::Errc::unavailable);
    stopped_ = false;
    stop_at_ = "never";
    // Each look at the clock takes as long as the searches may.
    watch_.elapsed_s = [this] { return 10.0 * ++looks_; };
    const auto hurried = ask({plan::SlowMachine{"den", 2}});
    ASSERT_TRUE(hurried.ok()) << hurried.error().message;
    EXPECT_FALSE(hurried->today.simulated);
    EXPECT_EQ(hurried->today.not_simulated, "it takes too long");
}

// A type of the catalogue, beside machines that measured themselves; its network is as it is given.
TEST_F(ServedWhatIfTest, AMachineOfTheCatalogueJoinsOverItsOwnNetwork) {
    const auto answer = ask({plan::AddMachines{"RTX 4090", "", 1, {{1e6, 0.02}}}});
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    int links = 0;
    for (const spec::LinkSpec& link : answer->what_if.problem.cluster.links) {
        if (link.from != 2 && link.to != 2) continue;
        ++links;
        EXPECT_EQ(link.bandwidth_bytes_per_s, 1e6);
        EXPECT_EQ(link.latency_s, 0.02);
    }
    EXPECT_EQ(links, 6);
    EXPECT_GT(answer->what_if.report.max_flow_tokens_per_s,
              answer->today.report.max_flow_tokens_per_s);
}

TEST_F(ServedWhatIfTest, SaysWhatHelpsMost) {
    const auto answer = ask({}, true);
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_FALSE(answer->planned_anew);
    const nlohmann::json json = json_of(*answer);
    ASSERT_FALSE(json["suggestions"]["ranked"].empty());
    double before = INFINITY;
    for (const auto& one : json["suggestions"]["ranked"]) {
        EXPECT_GT(one["gain_tokens_per_s"].get<double>(), 0);
        EXPECT_LE(one["gain_per_usd_per_hour"].get<double>(), before);
        before = one["gain_per_usd_per_hour"].get<double>();
    }
}

TEST_F(ServedWhatIfTest, TellsHowFarItIsAndStopsWhereNobodyWaits) {
    ASSERT_TRUE(ask({plan::SlowMachine{"den", 2}}).ok());
    ASSERT_GE(told_.size(), 4U);
    EXPECT_STREQ(told_.front().phase, "today");
    for (std::size_t i = 1; i < told_.size(); ++i) {
        EXPECT_GE(told_[i].share_done, told_[i - 1].share_done);
        EXPECT_LE(told_[i].share_done, 1);
    }
    told_.clear();
    stop_at_ = "what if";
    const auto answer = ask({plan::SlowMachine{"den", 2}});
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.error().code, base::Errc::unavailable);
    EXPECT_STREQ(told_.back().phase, "what if");
}

}  // namespace
}  // namespace helix::lab::served_what_if_test
