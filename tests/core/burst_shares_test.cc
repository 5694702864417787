// Requests that are asked at once, shared out by a real coordinator with its default router.

#include <gtest/gtest.h>

#include <map>

#include "core/scripted_cluster.h"

namespace helix::core::burst_shares_test {
namespace {

// Machines of one flow, each with the whole model.
class BurstShares : public ::testing::Test {
  protected:
    static CoordinatorConfig config() {
        CoordinatorConfig config;
        config.n_layers = 4;
        config.context_length = 400;
        config.block_size = 4;
        config.expected_output_tokens = 16;
        return config;
    }
    // No prompt begins as another one does.
    void ask(std::uint64_t id) {
        Request made;
        made.id = {id};
        made.prompt.assign(10, static_cast<Token>(100 + id));
        made.max_tokens = 200;
        made.stop_tokens = {99};
        cluster_.step(Submitted{std::move(made)});
        ASSERT_TRUE(cluster_.request(id).running) << id;
    }
    void answer(std::uint64_t id, int tokens) {
        for (int i = 1; i < tokens; ++i) cluster_.tokens(id, {5});
        cluster_.tokens(id, {99});
        ASSERT_FALSE(cluster_.open(id));
    }
    // By machine: how many of these requests, asked at once, it has.
    std::map<std::uint32_t, int> ask_at_once(std::uint64_t first, int requests) {
        std::map<std::uint32_t, int> shares;
        for (int i = 0; i < requests; ++i) {
            const std::uint64_t id = first + static_cast<std::uint64_t>(i);
            ask(id);
            ++shares[cluster_.lane(id)];
        }
        return shares;
    }
    ScriptedCluster cluster_{config(), 2, 1};
};

TEST_F(BurstShares, FourQuestionsAfterALongAnswerGoTwoToEachOfTwoEqualMachines) {
    ask(1);
    answer(1, 150);
    EXPECT_EQ(ask_at_once(2, 4), (std::map<std::uint32_t, int>{{0, 2}, {1, 2}}));
    for (const std::uint64_t id : {2U, 3U, 4U, 5U}) answer(id, id == 2 ? 180 : 2);
    EXPECT_EQ(ask_at_once(6, 4), (std::map<std::uint32_t, int>{{0, 2}, {1, 2}}));
}

TEST_F(BurstShares, QuestionsThatComeOneByOneStillTakeTurns) {
    std::map<std::uint32_t, int> shares;
    for (std::uint64_t id = 1; id <= 8; ++id) {
        ask(id);
        ++shares[cluster_.lane(id)];
        answer(id, 20);
    }
    EXPECT_EQ(shares, (std::map<std::uint32_t, int>{{0, 4}, {1, 4}}));
}

}  // namespace
}  // namespace helix::core::burst_shares_test
