// The seeds that run with every commit, and the seeds that once failed.

#include "sim/fuzz/fuzz_run.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/effort.h"
#include "sim/faults/toy_model.h"
#include "sim/fuzz/judge.h"

namespace helix::sim::cluster_fuzz_test {
namespace {

std::string failure(std::uint64_t seed, const FuzzResult& result) {
    return "FAIL seed " + std::to_string(seed) + ": " + result.broken +
           " at t=" + std::to_string(result.at_us) + "us — replay: helix_cluster_fuzz --seed " +
           std::to_string(seed);
}

TEST(ClusterFuzz, EverySeedKeepsItsPromisesAndEveryTwentiethRunsTwiceTheSame) {
    FuzzResult total;
    const std::uint64_t seeds = std::max(25U, sweep(800U));
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        const FuzzResult result = run_seed(seed);
        ASSERT_TRUE(result.broken.empty()) << failure(seed, result);
        if (seed % 20 == 0) {
            ASSERT_EQ(run_seed(seed).digest, result.digest) << "seed " << seed;
        }
        total.add(result);
    }
    EXPECT_GT(total.counts.kills, static_cast<std::int64_t>(seeds / 4));
    EXPECT_GT(total.counts.cuts, static_cast<std::int64_t>(seeds / 4));
    EXPECT_GT(total.completed, total.requests / 3);
    EXPECT_GT(total.probes.count(Probe::handed_over), static_cast<std::int64_t>(seeds));
    EXPECT_GT(total.probes.count(Probe::handed_over_after_recompute), 0);
    EXPECT_GT(total.probes.count(Probe::roles_not_kept), 0);
    for (const std::string& name : total.probes.unreached()) {
        std::printf("unreached probe: %s\n", name.c_str());
    }
    EXPECT_LT(total.probes.unreached().size(), kProbes / 2);
}

FaultPlan plan_of(const std::string& text) {
    auto plan = parse_fault_plan(text);
    EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().message);
    return plan.ok() ? *plan : FaultPlan{};
}

TEST(FaultPlan, ItsTextSaysAllOfIt) {
    FaultMix mix;
    for (double& rate : mix.per_minute) rate = 30;
    const FaultPlan plan = draw_faults(7, mix, 4, 60);
    EXPECT_GT(plan.size(), 100U);
    EXPECT_EQ(plan_of(to_text(plan)), plan);
    EXPECT_EQ(draw_faults(7, mix, 4, 60), plan);
    EXPECT_NE(draw_faults(8, mix, 4, 60), plan);
}

TEST(FaultPlan, WhatItCannotReadItNamesWithItsLineAndTheForm) {
    const auto error = [](const std::string& text) {
        const auto plan = parse_fault_plan(text);
        EXPECT_FALSE(plan.ok()) << text;
        return plan.ok() ? "" : plan.error().message;
    };
    EXPECT_NE(error("# faults\n\n1 cut w1 for 3").find("line 3"), std::string::npos);
    EXPECT_NE(error("1 cut w1 for 3").find("SECONDS cut wN|c wN|c for SECONDS [drop]"),
              std::string::npos);
    EXPECT_NE(error("1 explode w1").find("kill pause cut"), std::string::npos);
    EXPECT_NE(error("1 kill w1 told-after -1 for 3").find("told-after NUMBER"), std::string::npos);
    EXPECT_FALSE(parse_fault_plan("1 kill c told-after 0 for 3").ok());
    EXPECT_FALSE(parse_fault_plan("1 pause w1 for 3 4").ok());
    EXPECT_FALSE(parse_fault_plan("nan pause w1 for 3").ok());
}

// ---- the judge judges
// -----------------------------------------------------------------------------

class JudgeTest : public testing::Test {
  protected:
    JudgeTest() : judge_({kLayers, kVocab, 64, 4, 10, 10, true, false, true}) {
        request_.id = {1};
        request_.prompt = {1, 2, 3};
        request_.max_tokens = 3;
        request_.sampling.seed = 9;
        right_ = toy_generate(request_.prompt, 3, kLayers, 9, kVocab);
        judge_.submitted({}, request_);
    }
    void token(std::int32_t index, core::Token token) {
        core::StreamToken stream;
        stream.id = {1};
        stream.index = index;
        stream.token.token = token;
        judge_.token({}, stream);
    }
    void finish(core::FinishReason reason) {
        judge_.finished({}, core::FinishRequest{{1}, reason, core::FailureCause::none, ""});
    }
    void fail(core::FailureCause cause, double after_s, const std::string& error = "why not") {
        const core::TimePoint now{base::from_seconds(after_s).ns};
        judge_.finished(now, core::FinishRequest{{1}, core::FinishReason::error, cause, error});
    }
    bool says(const std::string& what) const {
        return judge_.verdict().find(what) != std::string::npos;
    }

    static constexpr std::int32_t kLayers = 4;
    static constexpr std::int32_t kVocab = 100;
    Judge judge_;
    core::Request request_;
    std::vector<core::Token> right_;
};

TEST_F(JudgeTest, IsContentWithTheRightTokensInOrder) {
    judge_.accepted({}, {1});
    for (std::int32_t i = 0; i < 3; ++i) token(i, right_[static_cast<std::size_t>(i)]);
    finish(core::FinishReason::length);
    judge_.close();
    EXPECT_EQ(judge_.verdict(), "");
    EXPECT_EQ(judge_.completed(), 1);
}

TEST_F(JudgeTest, SeesAWrongToken) {
    judge_.accepted({}, {1});
    token(0, right_[0] + 1);
    EXPECT_TRUE(says("P3: wrong token 0"));
}

TEST_F(JudgeTest, SeesATokenThatIsRepeatedOrSkipped) {
    judge_.accepted({}, {1});
    token(0, right_[0]);
    token(0, right_[0]);
    EXPECT_TRUE(says("P2: token 0 came when 1 was next"));
}

TEST_F(JudgeTest, SeesAnAnswerThatIsCutShort) {
    judge_.accepted({}, {1});
    token(0, right_[0]);
    finish(core::FinishReason::length);
    EXPECT_TRUE(says("P1: ended by length after 1 of 3 tokens"));
}

TEST_F(JudgeTest, SeesWhatNeverEndsAndWhatEndsTwice) {
    judge_.accepted({}, {1});
    judge_.close();
    EXPECT_TRUE(says("P1: accepted and never ended"));
}

TEST_F(JudgeTest, SeesRefusalAfterAcceptance) {
    judge_.accepted({}, {1});
    judge_.rejected({}, core::RejectRequest{{1}, core::RejectReason::queue_full, "full", 1});
    EXPECT_TRUE(says("P6: rejected after it was accepted"));
}

TEST_F(JudgeTest, SeesAStreamThatIsCutOffThoughTheCoordinatorLives) {
    judge_.accepted({}, {1});
    judge_.cut_off({}, {1});
    EXPECT_TRUE(says("P7: cut off though the coordinator lives"));
}

TEST_F(JudgeTest, SeesAnErrorThatIsNotAllowed) {
    judge_.accepted({}, {1});
    fail(core::FailureCause::worker_failed, 0, "worker w2 died while it served this request");
    EXPECT_TRUE(says("P6: an error that explains nothing"));
}

TEST_F(JudgeTest, GoesByTheCauseOfAnErrorAndNotByItsWords) {
    judge_.accepted({}, {1});
    fail(core::FailureCause::stalled, 9.9, "no placement");
    EXPECT_TRUE(says("P6: called stuck too early")) << judge_.verdict();
}

TEST_F(JudgeTest, AllowsToGiveUpOnceTheTimeIsOver) {
    judge_.accepted({}, {1});
    fail(core::FailureCause::unserved, 10.1);
    EXPECT_EQ(judge_.verdict(), "");
}

TEST_F(JudgeTest, WantsWordsWithACause) {
    judge_.accepted({}, {1});
    fail(core::FailureCause::unserved, 10.1, "");
    EXPECT_TRUE(says("P6: an error without a reason"));
}

}  // namespace
}  // namespace helix::sim::cluster_fuzz_test
