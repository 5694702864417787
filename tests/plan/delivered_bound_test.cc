#include "plan/bounds/delivered_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/effort.h"
#include "base/index.h"
#include "plan/bounds/least_travel.h"
#include "plan/plan_fixtures.h"
#include "plan/planner.h"
#include "plan/published_problems.h"
#include "plan/report/plan_json.h"

namespace helix::plan::delivered_bound_test {
namespace {

constexpr double kTolerance = 2e-3;  // DeliveredOptions has it

// A batch takes so much for itself, for each decode and for each row of prompts.
class SimpleCosts final : public spec::CostModel {
  public:
    SimpleCosts(double batch_s, double decode_s, double row_s)
        : batch_s_(batch_s), decode_s_(decode_s), row_s_(row_s) {}
    double layer_s(const spec::NodeSpec&, std::int32_t decodes, std::int32_t rows) const override {
        return (decodes > 0 ? batch_s_ : 0) + decode_s_ * decodes + row_s_ * rows;
    }

  private:
    double batch_s_;
    double decode_s_;
    double row_s_;
};

// Nodes that hold up to `layers` layers beside kv_tokens of context, whatever they hold.
CapacityTable alike(std::size_t n, std::int32_t layers, double kv_tokens) {
    NodeCapacity node;
    for (auto& row : node.max_layers) row = {layers, layers};
    for (std::int32_t j = 0; j <= layers; ++j) {
        node.tokens_per_s.push_back(j == 0 ? 0 : 1000.0 / j);
        node.kv_tokens.push_back(j == 0 ? 0 : kv_tokens);
    }
    return {std::vector<NodeCapacity>(n, node)};
}

// Machines between which messages take no time.
spec::ClusterSpec near(std::vector<spec::NodeSpec> nodes) {
    spec::ClusterSpec cluster = cluster_of(std::move(nodes), 1e15);
    for (spec::LinkSpec& link : cluster.links) link.latency_s = 0;
    return cluster;
}

TEST(DeliveredBound, IsWhatTheKvMemoryOfOneMachineAllows) {
    const spec::ClusterSpec cluster = near({machine("one", 4, 0.01)});
    const spec::ModelSpec model = small_model(4);
    const CapacityTable capacities = alike(1, 4, 10'000);
    // Requests of 100 + 101 tokens: rows of 100 .. 199 tokens of context. A token takes 4 batches
    // of 10 ms, so 10'000 tokens of context are 10'000 / 149.5 / 0.04 tokens/s.
    const DeliveredBound bound =
        delivered_bound({cluster, model, capacities}, SimpleCosts(0.01, 0, 1e-7),
                        {.lengths = fixed_lengths(100, 101)});
    const double exact = 10'000 / 149.5 / 0.04;
    EXPECT_GE(bound.tokens_per_s, exact * (1 - 1e-9));
    EXPECT_LE(bound.tokens_per_s, exact * (1 + 2 * kTolerance));
    EXPECT_EQ(bound.binds, DeliveredTerm::kv_memory);
    EXPECT_GT(bound.compute_tokens_per_s, 10 * exact);
}

TEST(DeliveredBound, KnowsThatRowsOnLinksHoldMemory) {
    spec::ClusterSpec cluster = near({machine("one", 4, 0.01)});
    for (spec::LinkSpec& link : cluster.links) link.latency_s = 0.05;
    const spec::ModelSpec model = small_model(4);
    // The same as above, and 50 ms to the machine and back.
    const DeliveredBound bound =
        delivered_bound({cluster, model, alike(1, 4, 10'000)}, SimpleCosts(0.01, 0, 1e-7),
                        {.lengths = fixed_lengths(100, 101)});
    const double exact = 10'000 / 149.5 / 0.14;
    EXPECT_GE(bound.tokens_per_s, exact * (1 - 1e-6));
    EXPECT_LE(bound.tokens_per_s, exact * (1 + 2 * kTolerance));
    EXPECT_EQ(bound.binds, DeliveredTerm::links);
    EXPECT_NEAR(bound.unlinked_tokens_per_s, 10'000 / 149.5 / 0.04, 10);
    EXPECT_NEAR(bound.travel_s, 0.1, 1e-6);
}

// Every way from the coordinator through machines and back, by trying all.
class AllWays {
  public:
    explicit AllWays(const Problem& problem) : problem_(problem) {}

    // 0: there is none.
    double least_s() {
        for (const spec::LinkSpec& link : problem_.cluster.links) {
            if (link.from == spec::kCoordinator) go(link, 0, 0);
        }
        return least_s_ < kNever ? least_s_ : 0;
    }

  private:
    void go(const spec::LinkSpec& link, std::int32_t layers, double s) {
        const bool token = link.from == spec::kCoordinator || link.to == spec::kCoordinator;
        const auto bytes = static_cast<double>(token ? problem_.model.token_bytes
                                                     : problem_.model.activation_bytes_per_token);
        s += link.latency_s + bytes / link.bandwidth_bytes_per_s;
        if (link.to == spec::kCoordinator) {
            if (layers == problem_.model.n_layers) least_s_ = std::min(least_s_, s);
            return;
        }
        const std::int32_t most = problem_.capacities.nodes[base::at(link.to)].most();
        for (std::int32_t run = 1; layers + run <= problem_.model.n_layers && run <= most; ++run) {
            for (const spec::LinkSpec& next : problem_.cluster.links) {
                if (next.from == link.to) go(next, layers + run, s);
            }
        }
    }

    const Problem& problem_;
    static constexpr double kNever = 1e300;
    double least_s_ = kNever;
};

TEST(LeastTravel, IsTheShortestOfAllWays) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        base::Random random(seed);
        const auto n = static_cast<std::int32_t>(random.between(1, 3));
        const spec::ModelSpec model = small_model(static_cast<std::int32_t>(random.between(1, 5)));
        spec::ClusterSpec cluster;
        cluster.nodes.resize(static_cast<std::size_t>(n));
        link_all(cluster, 1e6, 0);
        for (spec::LinkSpec& link : cluster.links) link.latency_s = 0.05 * random.uniform();
        const CapacityTable capacities = random_capacities(random, n, 3);
        const Problem problem{cluster, model, capacities};
        EXPECT_NEAR(least_travel_s(problem), AllWays(problem).least_s(), 1e-12) << "seed " << seed;
    }
}

TEST(LeastTravel, IsNothingWhereNoWayIsKnown) {
    spec::ClusterSpec cluster;
    cluster.nodes.resize(2);
    const spec::ModelSpec model = small_model(4);
    EXPECT_EQ(least_travel_s({cluster, model, alike(2, 2, 1000)}), 0);
}

TEST(DeliveredBound, IsWhatTheMachinesComputeWhereMemoryIsPlenty) {
    const spec::ClusterSpec cluster =
        cluster_of({machine("a", 4, 0.01), machine("b", 4, 0.01), machine("c", 4, 0.01)});
    const spec::ModelSpec model = small_model(4);
    const DeliveredBound bound =
        delivered_bound({cluster, model, alike(3, 4, 1e18)}, SimpleCosts(0, 1e-3, 1e-4),
                        {.lengths = fixed_lengths(300, 100)});
    const double exact = 3 / (4 * (1e-3 + 3 * 1e-4));
    EXPECT_GE(bound.tokens_per_s, exact * (1 - 1e-9));
    EXPECT_LE(bound.tokens_per_s, exact * 1.03);
    EXPECT_EQ(bound.binds, DeliveredTerm::compute);
}

// A machine runs no more rows than its layers have: a fast one with few layers helps little.
TEST(DeliveredBound, KnowsThatAMachineServesOnlyItsLayers) {
    const spec::ClusterSpec cluster = cluster_of({machine("small", 1, 1), machine("big", 3, 1)});
    const spec::ModelSpec model = small_model(4);
    CapacityTable capacities = alike(2, 3, 1e18);
    capacities.nodes[0] = alike(1, 1, 1e18).nodes[0];
    const DeliveredBound bound =
        delivered_bound({cluster, model, capacities}, SimpleCosts(0, 1e-3, 1e-9),
                        {.lengths = fixed_lengths(10, 100)});
    EXPECT_GE(bound.tokens_per_s, 1000.0 / 3 * (1 - 1e-3));
    EXPECT_LE(bound.tokens_per_s, 1000.0 / 3 * 1.03);
}

TEST(DeliveredBound, NeverFallsWithMoreMachinesOrMemory) {
    for (std::uint64_t seed = 1; seed <= sweep(6U); ++seed) {
        base::Random random(seed);
        const auto n = static_cast<std::int32_t>(random.between(1, 3));
        const spec::ModelSpec model = small_model(static_cast<std::int32_t>(random.between(1, 4)));
        const SimpleCosts costs(0.02 * random.uniform(), 1e-4 * random.uniform(),
                                1e-5 * random.uniform() + 1e-6);
        const DeliveredOptions options{
            .lengths = fixed_lengths(50, static_cast<double>(random.between(1, 100)))};
        CapacityTable capacities = random_capacities(random, n + 1, 4);
        const CapacityTable fewer{{capacities.nodes.begin(), capacities.nodes.end() - 1}};
        const auto bound_of = [&](const CapacityTable& table) {
            spec::ClusterSpec cluster{.name = "n", .nodes = {}, .links = {}};
            cluster.nodes.resize(table.nodes.size());
            return delivered_bound({cluster, model, table}, costs, options).tokens_per_s;
        };
        const double before = bound_of(fewer);
        const double with_machine = bound_of(capacities);
        for (NodeCapacity& node : capacities.nodes) {
            for (double& tokens : node.kv_tokens) tokens *= 1.5;
        }
        const double with_memory = bound_of(capacities);
        EXPECT_GE(with_machine, before * (1 - 2 * kTolerance)) << "seed " << seed;
        EXPECT_GE(with_memory, with_machine * (1 - 2 * kTolerance)) << "seed " << seed;
    }
}

TEST(DeliveredBound, IsTheBestSoFarWhenItIsStopped) {
    const spec::ClusterSpec cluster = near({machine("one", 4, 0.01)});
    const spec::ModelSpec model = small_model(4);
    const CapacityTable capacities = alike(1, 4, 10'000);
    const SimpleCosts costs(0.01, 0, 1e-7);
    double last = 1e300;
    for (const int most : {0, 3, 10, 30, 1000}) {
        int asked = 0;
        const DeliveredBound bound = delivered_bound(
            {cluster, model, capacities}, costs,
            {.lengths = fixed_lengths(100, 101), .stop = [&] { return ++asked > most; }});
        if (most == 0) {
            EXPECT_EQ(bound.tokens_per_s, 0);  // none
            continue;
        }
        EXPECT_GE(bound.tokens_per_s, 10'000 / 149.5 / 0.04 * (1 - 1e-9));
        EXPECT_LE(bound.tokens_per_s, last);
        last = bound.tokens_per_s;
    }
}

// What the best known layouts serve in the simulator, and that the bound is not looser than it was.
TEST(DeliveredBound, OfThePublishedProblems) {
    const struct {
        const char* cluster;
        const char* model;
        double served;
        double bound;
    } known[] = {{"single24", "llama2-70b", 756, 1745}};
    for (const auto& [cluster, model, served, most] : known) {
        const PublishedProblem problem = published_problem(cluster, model, "single24");
        const auto tables = spec::ProfileTables::read(std::string(kPaperData) + "/profiles", model);
        ASSERT_TRUE(tables.ok());
        const DeliveredBound bound =
            delivered_bound({problem.cluster, problem.model, problem.capacities}, *tables, {});
        EXPECT_GT(bound.tokens_per_s, served) << cluster << ' ' << model;
        EXPECT_LT(bound.tokens_per_s, most) << cluster << ' ' << model;
        EXPECT_NE(bound.binds, DeliveredTerm::compute);
        EXPECT_LE(bound.tokens_per_s, bound.unlinked_tokens_per_s);
        EXPECT_LT(bound.unlinked_tokens_per_s, bound.compute_tokens_per_s);
    }
}

TEST(DeliveredBound, IsInThePlanThatAsksForIt) {
    const spec::ClusterSpec cluster =
        cluster_of({machine("a", 6, 1e-4), machine("b", 6, 1e-4), machine("c", 6, 1e-4)});
    const spec::ModelSpec model = small_model(8);
    PlanOptions options;
    options.objective = Objective::throughput;
    options.throughput_iterations = 500;
    options.iterations = 500;
    options.delivered_bound = true;
    const auto report = plan(cluster, model, options);
    ASSERT_TRUE(report.ok()) << report.error().message;
    ASSERT_TRUE(report->delivered_bound.has_value());
    EXPECT_GT(report->delivered_bound->tokens_per_s, report->prediction->decode_tokens_per_s);
    const auto json = nlohmann::json::parse(plan_to_json(cluster, model, *report, 1));
    EXPECT_DOUBLE_EQ(json.at("delivered_bound").at("tokens_per_s"),
                     report->delivered_bound->tokens_per_s);
}

}  // namespace
}  // namespace helix::plan::delivered_bound_test
