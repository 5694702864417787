#include "plan/search/search.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/effort.h"
#include "exhaustive.h"
#include "plan/problem/problem.h"
#include "plan/search/enumerate.h"
#include "plan_fixtures.h"

namespace helix::plan::search_test {
namespace {

using spec::Placement;

// A cluster, links and T(j) without any order in them: T may rise with j, links may be narrow or
// missing, the ends may have less room.
struct TinyProblem {
    TinyProblem(base::Random& random, std::int64_t most_nodes, std::int64_t most_layers) {
        const auto n = static_cast<std::int32_t>(random.between(1, most_nodes));
        n_layers = static_cast<std::int32_t>(random.between(1, most_layers));
        cluster = random_cluster(random, n, random.chance(0.3) ? 0.2 : 0);
        if (random.chance(0.5)) {
            for (spec::LinkSpec& link : cluster.links) link.bandwidth_bytes_per_s = 1e9;
        }
        // So that all nodes together hold about one and a half models.
        const auto most = std::max<std::int32_t>(1, (3 * n_layers / 2 + n - 1) / n);
        capacities = random_capacities(random, n, std::min(most, n_layers));
        for (NodeCapacity& node : capacities.nodes) {
            if (random.chance(0.3)) node.tokens_per_s.back() *= 1 + random.uniform();
            if (random.chance(0.1)) node.max_layers[1][0] = node.max_layers[1][1] = node.most() - 1;
            if (random.chance(0.1)) node.max_layers[0][1] = node.max_layers[1][1] = 0;
        }
        options.partial = random.chance(0.5);
        model = small_model(n_layers);
    }

    std::int32_t n_layers = 0;
    spec::ClusterSpec cluster;
    spec::ModelSpec model;
    CapacityTable capacities;
    FlowOptions options;
};

TEST(Exhaustive, EqualsTryingAllWithoutAnyPruning) {
    int positive = 0;
    for (std::uint64_t seed = 0; seed < 150; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        base::Random random(seed);
        const TinyProblem p(random, 3, 5);
        const Evaluator evaluator({p.cluster, p.model, p.capacities}, p.options);
        const Placement nothing{std::vector<spec::LayerRange>(p.cluster.nodes.size())};
        const Exhaustive found = exhaustive_placement(evaluator, nothing, {});
        ASSERT_TRUE(found.complete);
        ASSERT_NEAR(found.flow, exhaustive_flow(evaluator), 1e-6 * std::max(1.0, found.flow));
        ASSERT_TRUE(check_placement({p.cluster, p.model, p.capacities}, found.placement).ok());
        positive += found.flow > 0 ? 1 : 0;
    }
    EXPECT_GT(positive, 60);
}

TEST(Exhaustive, SaysWhenItsStepsWereNotEnough) {
    base::Random random(3);
    const CapacityTable capacities = random_capacities(random, 6, 6);
    const auto cluster = random_cluster(random, 6, 0);
    const spec::ModelSpec model = small_model(12);
    const FlowOptions options;
    const Evaluator evaluator({cluster, model, capacities}, options);
    const Placement nothing{std::vector<spec::LayerRange>(6)};
    const Exhaustive found =
        exhaustive_placement(evaluator, nothing, {.most_steps = 500, .stop = {}});
    EXPECT_FALSE(found.complete);
    EXPECT_LE(found.steps, 501 + 16);
}

TEST(Search, EqualsTheExhaustiveOptimumOnSmallClusters) {
    int positive = 0;
    int proven = 0;
    for (std::uint64_t seed = 0; seed < sweep(2000U); ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        base::Random random(seed);
        const TinyProblem p(random, 5, 8);
        const Evaluator evaluator({p.cluster, p.model, p.capacities}, p.options);
        const Placement nothing{std::vector<spec::LayerRange>(p.cluster.nodes.size())};
        SearchOptions options;
        options.seed = seed;
        options.iterations = 6000;
        options.flow_tolerance = 0;
        const SearchResult found = search_placement(evaluator, {nothing}, options);
        const Exhaustive best = exhaustive_placement(evaluator, found.most_flow, {});
        ASSERT_TRUE(best.complete);
        ASSERT_EQ(found.flow, best.flow);
        ASSERT_TRUE(check_placement({p.cluster, p.model, p.capacities}, found.most_flow).ok());
        positive += found.flow > 0 ? 1 : 0;
        proven += found.proven ? 1 : 0;
    }
    EXPECT_GT(positive, sweep(1000));
    EXPECT_GE(proven, sweep(1900));
}

}  // namespace
}  // namespace helix::plan::search_test
