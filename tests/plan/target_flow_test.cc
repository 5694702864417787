#include "plan/flow/target_flow.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plan/flow/evaluator.h"
#include "plan/search/anneal.h"
#include "plan_fixtures.h"

namespace helix::plan::target_flow_test {
namespace {

using spec::kCoordinator;

struct RandomProblem {
    explicit RandomProblem(base::Random& random) {
        n_layers = static_cast<std::int32_t>(random.between(1, 10));
        const double missing = random.chance(0.5) ? 0.2 : 0;
        cluster = random_cluster(random, static_cast<std::int32_t>(random.between(1, 7)), missing);
        const bool narrow = random.chance(0.5);
        const std::int64_t regions = random.between(1, 3);
        for (spec::LinkSpec& link : cluster.links) {  // wide inside of regions, and to the outside
            const bool outside = link.from == kCoordinator || link.to == kCoordinator;
            const bool same = !outside && link.from % regions == link.to % regions;
            if (!narrow || same || (outside && random.chance(0.5)))
                link.bandwidth_bytes_per_s = 1e9;
        }
        capacities =
            random_capacities(random, static_cast<std::int32_t>(cluster.nodes.size()), n_layers);
        options.partial = random.chance(0.5);
    }

    std::int32_t n_layers = 0;
    spec::ClusterSpec cluster;
    CapacityTable capacities;
    FlowOptions options;
};

TEST(TargetFlow, MissesNothingExactlyUpToTheMaximumFlow) {
    int graded = 0;
    for (std::uint64_t seed = 0; seed < 1500; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        base::Random random(seed);
        const RandomProblem p(random);
        const spec::ModelSpec model = small_model(p.n_layers);
        TargetFlow target({p.cluster, model, p.capacities}, p.options);
        const Evaluator evaluator({p.cluster, model, p.capacities}, p.options);
        for (int k = 0; k < 4; ++k) {
            const auto placement = random_placement(random, p.capacities, p.n_layers);
            const double flow = evaluator.flow(placement.layers);
            if (flow > 1) {
                ASSERT_EQ(target.missing(placement.layers, flow * (1 - 1e-6)), 0);
                ASSERT_GT(target.missing(placement.layers, flow * (1 + 1e-5)), 0);
            }
            // More is missing for more, and never less than what the layers' holders lack.
            const double some = target.missing(placement.layers, flow + 10);
            const double more = target.missing(placement.layers, flow + 100);
            ASSERT_GT(some, 0);
            ASSERT_GE(more * (flow + 100), some * (flow + 10) - 1e-6);
            graded += more * (flow + 100) > some * (flow + 10) + 1 ? 1 : 0;
        }
    }
    EXPECT_GT(graded, 4000);
}

TEST(TargetFlow, KeptPricesChangeNoResultAndGivingUpOnlyHidesWhatIsAbove) {
    int given_up = 0;
    for (std::uint64_t seed = 0; seed < 500; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        base::Random random(seed);
        const RandomProblem p(random);
        const spec::ModelSpec model = small_model(p.n_layers);
        TargetFlow fresh({p.cluster, model, p.capacities}, p.options);
        TargetFlow warm({p.cluster, model, p.capacities}, p.options);
        const double wanted = 10 * std::pow(100.0, random.uniform());
        for (int k = 0; k < 10; ++k) {
            const auto placement = random_placement(random, p.capacities, p.n_layers);
            const double expected = fresh.missing(placement.layers, wanted);
            const double limit = expected * 2 * random.uniform();
            const double limited = warm.missing(placement.layers, wanted, limit);
            if (expected > limit) {
                ASSERT_GT(limited, limit);
                ASSERT_LE(limited, expected + 1e-6);
                ++given_up;
            }
            ASSERT_NEAR(warm.missing(placement.layers, wanted), expected, 1e-6);
            if (random.chance(0.5)) warm.keep_prices();
        }
    }
    EXPECT_GT(given_up, 500);
}

TEST(TargetFlow, GradesGapsOverlapsAndMissingLinks) {
    const spec::ModelSpec model = small_model(10);
    CapacityTable capacities;
    for (int i = 0; i < 2; ++i) {
        NodeCapacity node;
        for (auto& row : node.max_layers) row = {9, 9};
        node.tokens_per_s.assign(10, 100);
        node.kv_tokens.assign(10, 1);
        capacities.nodes.push_back(node);
    }
    const FlowOptions exact{.partial = false};
    spec::ClusterSpec cluster = cluster_of({machine("a", 9, 1), machine("b", 9, 1)}, 1e9);
    TargetFlow target({cluster, model, capacities}, exact);
    EXPECT_EQ(target.n_groups(), 1);
    using Layers = std::vector<spec::LayerRange>;
    EXPECT_EQ(target.missing(Layers{{0, 5}, {5, 10}}, 100), 0);
    EXPECT_EQ(target.missing(Layers{{0, 4}, {6, 10}}, 100), 2);  // two layers that nobody has
    EXPECT_EQ(target.missing(Layers{{0, 5}, {3, 10}}, 100), 1);  // two that both have
    EXPECT_EQ(target.missing(Layers{{0, 5}, {5, 10}}, 200), 5);  // half of the flow, ten layers
    EXPECT_EQ(target.missing(Layers{{0, 5}, {}}, 50), 5);
    TargetFlow partial({cluster, model, capacities}, {.partial = true});
    EXPECT_EQ(partial.missing(Layers{{0, 5}, {3, 10}}, 100), 0);
    for (spec::LinkSpec& link : cluster.links) {
        if (link.from == 0 && link.to == 1) link.bandwidth_bytes_per_s = 50 * 1000;
    }
    TargetFlow narrow({cluster, model, capacities}, exact);
    EXPECT_EQ(narrow.n_groups(), 2);
    EXPECT_EQ(narrow.missing(Layers{{0, 5}, {5, 10}}, 50), 0);
    EXPECT_EQ(narrow.missing(Layers{{0, 5}, {5, 10}}, 100), 0.5);  // half of it lacks a link
    EXPECT_EQ(narrow.missing(Layers{{5, 10}, {0, 5}}, 100), 0);
}

TEST(AnnealToTarget, ReachesAFlowThatIsThereAndRepeats) {
    base::Random random(5);
    const CapacityTable capacities = random_capacities(random, 6, 4);
    const auto cluster = random_cluster(random, 6, 0);
    const spec::ModelSpec model = small_model(8);
    const FlowOptions exact{.partial = false};
    const Evaluator evaluator({cluster, model, capacities}, exact);
    TargetFlow target({cluster, model, capacities}, exact);
    AnnealOptions options{.target = 20, .seed = 3, .iterations = 100'000, .stop = {}, .seen = {}};
    const std::vector<spec::LayerRange> nothing(6);
    const Annealed found = anneal_to_target(target, capacities, 8, nothing, options);
    EXPECT_EQ(found.missing, 0);
    EXPECT_LT(found.iterations, 100'000);
    EXPECT_GE(evaluator.flow(found.layers), 20);
    TargetFlow other({cluster, model, capacities}, exact);
    const Annealed again = anneal_to_target(other, capacities, 8, nothing, options);
    EXPECT_EQ(again.layers, found.layers);
    EXPECT_EQ(again.iterations, found.iterations);
    options.stop = [] { return true; };
    EXPECT_EQ(anneal_to_target(target, capacities, 8, nothing, options).iterations, 0);
}

}  // namespace
}  // namespace helix::plan::target_flow_test
