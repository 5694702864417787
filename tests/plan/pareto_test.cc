#include "plan/search/pareto.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/random.h"

namespace helix::plan::pareto_test {
namespace {

TEST(ParetoFront, ShallowerOrMoreRobustPlansStayBesideTheFastest) {
    const std::vector<Merits> merits = {{100, 50, 10, 1000, 0.5},
                                        {100, 50, 12, 1000, 0.5},   // deeper, else equal: out
                                        {80, 40, 6, 500, 0.5},      // shallow
                                        {90, 45, 10, 900, 0.9},     // robust
                                        {100, 50, 10, 1000, 0.5}};  // again the first
    EXPECT_EQ(pareto_front(merits), (std::vector<std::size_t>{0, 2, 3}));
}

TEST(ParetoFront, EqualsComparisonOfAllPairs) {
    base::Random random(5);
    std::vector<Merits> merits;
    for (int i = 0; i < 200; ++i) {
        const auto few = [&] { return static_cast<double>(random.below(4)); };
        merits.push_back({few(), few(), few(), few(), few()});
    }
    const auto values = [](const Merits& m) {
        return std::array<double, 5>{m.flow_tokens_per_s, m.decode_tokens_per_s, -m.depth,
                                     m.kv_tokens, m.worst_loss_share};
    };
    const std::vector<std::size_t> front = pareto_front(merits);
    for (std::size_t i = 0; i < merits.size(); ++i) {
        const auto mine = values(merits[i]);
        bool beaten = false;
        for (std::size_t k = 0; k < merits.size(); ++k) {
            const auto other = values(merits[k]);
            bool no_worse = true;
            for (std::size_t v = 0; v < mine.size(); ++v)
                no_worse = no_worse && other[v] >= mine[v];
            beaten = beaten || (no_worse && (other != mine || k < i));
        }
        EXPECT_EQ(std::count(front.begin(), front.end(), i), beaten ? 0 : 1) << i;
    }
}

}  // namespace
}  // namespace helix::plan::pareto_test
