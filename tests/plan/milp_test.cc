#include "plan/milp/milp.h"
#include "base/effort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "milp_fixtures.h"
#include "plan/bounds/bounds.h"
#include "plan/rules/heuristics.h"
#include "plan_fixtures.h"

namespace helix::plan::milp_test {
namespace {

using Links = std::vector<std::pair<std::int32_t, std::int32_t>>;

Links all_links(const spec::ClusterSpec& cluster) {
    Links links;
    for (const spec::LinkSpec& link : cluster.links) links.emplace_back(link.from, link.to);
    return links;
}

MilpReport solve(const PublishedProblem& problem, const MilpOptions& options) {
    auto report = milp_placement({problem.cluster, problem.model, problem.capacities}, options);
    EXPECT_TRUE(report.ok()) << report.error().message;
    return std::move(*report);
}

PublishedProblem random_problem(std::uint64_t seed, double missing_links) {
    base::Random random(seed);
    const auto n = static_cast<std::int32_t>(random.between(1, 3));
    PublishedProblem problem;
    problem.model = small_model(static_cast<std::int32_t>(random.between(1, 5)));
    problem.capacities = random_capacities(random, n, 4);
    problem.cluster = random_cluster(random, n, missing_links);
    return problem;
}

// To the proof.
MilpStopOptions no_early_stop() {
    return {.near_bound = 0,
            .good_enough = 0,
            .no_gain_s = 0,
            .time_limit_s = 0,
            .now_s = {},
            .asked = {}};
}

TEST(MilpProgram, HasThePublishedNumbersOfRowsAndColumns) {
    const struct {
        const char* cluster;
        const char* model;
        const char* mix;
        bool pruned;
        std::size_t rows;
        std::size_t columns;
    } known[] = {{"single24", "llama2-70b", "single24", false, 1848, 1376},
                 {"distributed24", "llama2-70b", "single24", true, 1122, 876},
                 {"highhet42", "llama2-70b", "highhet42", true, 2772, 2144},
                 {"highhet42", "llama2-70b", "highhet42", false, 5502, 4004},
                 {"ablation10", "llama1-30b", "ablation10", false, 350, 316}};
    for (const auto& [cluster, model, mix, pruned, rows, columns] : known) {
        const PublishedProblem problem = published_problem(cluster, model, mix);
        const MilpProgram milp(
            {problem.cluster, problem.model, problem.capacities},
            pruned ? prune_links(problem.cluster, {}) : all_links(problem.cluster), {});
        EXPECT_EQ(milp.program().rows.size(), rows) << cluster;
        EXPECT_EQ(milp.program().columns.size(), columns) << cluster;
    }
}

// n nodes that hold up to k layers each, all links: n + nk + 2(n(n-1) + 2n) columns and so on.
TEST(MilpProgram, SizesFollowTheClosedForm) {
    for (const std::int32_t n : {1, 2, 5}) {
        base::Random random(7);
        const CapacityTable capacities = random_capacities(random, n, 4);
        std::size_t sizes = 0;
        for (const NodeCapacity& node : capacities.nodes)
            sizes += static_cast<std::size_t>(std::min(node.most(), 6));
        const auto cluster = cluster_of(
            std::vector<spec::NodeSpec>(static_cast<std::size_t>(n), machine("n", 1, 1)));
        const auto nodes = static_cast<std::size_t>(n);
        const std::size_t hops = nodes * (nodes - 1);
        const std::size_t edges = hops + 2 * nodes;
        for (const bool partial : {false, true}) {
            for (const bool remove : {false, true}) {
                const spec::ModelSpec model = small_model(6);
                const MilpProgram milp({cluster, model, capacities}, all_links(cluster),
                                       {.partial = partial, .remove_redundant = remove});
                EXPECT_EQ(milp.program().columns.size(),
                          nodes + sizes + 2 * edges + (partial ? 2 * hops : 0));
                const std::size_t validity = remove ? 2 * nodes + (partial ? 3 : 2) * hops
                                                    : 4 * nodes + (partial ? 6 : 2) * hops;
                EXPECT_EQ(milp.program().rows.size(), 4 * nodes + edges + validity);
            }
        }
    }
}

// Whatever the switches: what start() says of a placement fits every row, and its objective is the
// placement's maximum flow.
TEST(MilpProgram, TheStartOfAnyPlacementFitsEveryRow) {
    int with_flow = 0;
    for (std::uint64_t seed = 0; seed < 600; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        base::Random random(seed);
        const auto n = static_cast<std::int32_t>(random.between(1, 5));
        const std::int32_t n_layers = static_cast<std::int32_t>(random.between(1, 6));
        CapacityTable capacities = random_capacities(random, n, 5);
        if (random.chance(0.3)) {  // the embedding costs one layer, the head two
            for (NodeCapacity& node : capacities.nodes) {
                const std::int32_t most = node.most();
                node.max_layers = {
                    {{most, std::max(0, most - 2)}, {most - 1, std::max(0, most - 3)}}};
            }
        }
        const spec::ClusterSpec cluster = random_cluster(random, n, 0.2);
        const spec::ModelSpec model = small_model(n_layers);
        const double bound =
            random.chance(0.5) ? 0 : flow_bounds({cluster, model, capacities}).best;
        const MilpFormulation formulation{.partial = random.chance(0.5),
                                          .remove_redundant = random.chance(0.5),
                                          .every_node_holds = random.chance(0.3),
                                          .cap_links = random.chance(0.5),
                                          .flow_bound = bound,
                                          .order_equals = false};
        const MilpProgram milp({cluster, model, capacities}, all_links(cluster), formulation);
        spec::Placement placement = random_placement(random, capacities, n_layers);
        for (std::size_t i = 0; i < placement.layers.size(); ++i) {
            if (!capacities.nodes[i].fits(placement.layers[i], n_layers)) placement.layers[i] = {};
        }
        const std::vector<double> values = milp.start(placement);
        const mip::Program& program = milp.program();
        for (std::size_t c = 0; c < values.size(); ++c) {
            ASSERT_GE(values[c], program.columns[c].lower) << program.columns[c].name;
            ASSERT_LE(values[c], program.columns[c].upper) << program.columns[c].name;
        }
        for (const auto& row : program.rows) {
            // With no room anywhere for one layer a node cannot be filled.
            if (formulation.every_node_holds && row.name.starts_with("size_")) continue;
            double sum = 0;
            for (const auto& term : row.terms)
                sum += term.factor * values[static_cast<std::size_t>(term.column)];
            ASSERT_GE(sum, row.lower - 1e-6) << row.name;
            ASSERT_LE(sum, row.upper + 1e-6) << row.name;
        }
        const spec::Placement back = milp.placement(values);
        for (std::size_t i = 0; i < back.layers.size(); ++i) {
            if (placement.layers[i].empty()) continue;
            ASSERT_EQ(back.layers[i], placement.layers[i]);
        }
        const double objective = mip::objective_of(program, values);
        ASSERT_NEAR(objective, milp.flow(back), 1e-6);
        if (objective > 0) ++with_flow;
    }
    EXPECT_GT(with_flow, 50);
}

TEST(Milp, EqualsExhaustiveSearchOnRandomClusters) {
    constexpr std::uint64_t kSeeds = kSanitized ? 20 : 60;
    std::uint64_t solved = 0;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        const PublishedProblem problem = random_problem(seed, seed % 3 == 0 ? 0.2 : 0.0);
        MilpOptions options;
        options.formulation = {.partial = seed % 2 == 0,
                               .remove_redundant = seed % 5 != 0,
                               .every_node_holds = seed % 4 == 0,
                               .cap_links = seed % 7 != 0,
                               .flow_bound = 0,
                               .order_equals = seed % 3 == 1};
        if (seed % 3 != 0) {
            options.formulation.flow_bound =
                flow_bounds({problem.cluster, problem.model, problem.capacities}).best;
        }
        options.stop = no_early_stop();
        const MilpReport report = solve(problem, options);
        const FlowOptions flow{.partial = options.formulation.partial};
        const double expected = EveryPlacement({problem.cluster, problem.model, problem.capacities},
                                               flow, options.formulation.every_node_holds)
                                    .best();
        ASSERT_TRUE(report.proven()) << mip::to_string(report.status);
        ASSERT_NEAR(report.objective, expected, 1e-4 * std::max(1.0, expected));
        ASSERT_NEAR(report.max_flow, report.objective, 1e-4 * std::max(1.0, expected));
        if (expected > 0) ++solved;
    }
    EXPECT_GT(solved, kSeeds / 3);
}

TEST(Milp, PruningNeverGainsAndAStartIsNeverLost) {
    int used = 0;
    for (std::uint64_t seed = 100; seed < 130; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        const PublishedProblem problem = random_problem(seed, 0);
        MilpOptions options;
        options.stop = no_early_stop();
        options.formulation.partial = seed % 2 == 0;
        const MilpReport full = solve(problem, options);
        options.start = even_placement(problem.capacities, problem.model.n_layers);
        options.stop.asked = [] { return true; };
        const MilpReport begun = solve(problem, options);
        if (options.start) {
            ++used;
            ASSERT_TRUE(begun.start_used) << begun.start_note;
            ASSERT_EQ(begun.start_note, "");
            ASSERT_GE(begun.objective, begun.start_flow - 1e-6);
        }
        options.stop = no_early_stop();
        options.prune = PruneOptions{.min_keep = 1, .max_keep = 1};
        const MilpReport pruned = solve(problem, options);
        ASSERT_TRUE(pruned.proven());
        ASSERT_LE(pruned.links, full.links);
        ASSERT_LE(pruned.objective, full.objective * (1 + 1e-6) + 1e-6);
        ASSERT_GE(pruned.objective, pruned.start_flow - 1e-6);
    }
    EXPECT_GT(used, 10);
}

// The paper makes every node hold something; where that costs, the other form finds more.
TEST(Milp, ALeftOutNodeIsPossibleOnlyWithoutThePapersRule) {
    // Layers 0..3, two fast nodes that hold 2; without partial inference a third cannot harm, so
    // its room is what decides: it has none.
    CapacityTable capacities;
    for (const double speed : {100.0, 100.0, 1.0}) {
        NodeCapacity node;
        for (auto& row : node.max_layers) row = {2, 2};
        node.tokens_per_s = {0, speed, speed / 2};
        node.kv_tokens = {0, 1, 1};
        capacities.nodes.push_back(node);
    }
    const auto cluster = cluster_of({machine("a", 1, 1), machine("b", 1, 1), machine("c", 1, 1)});
    for (const bool every : {true, false}) {
        MilpOptions options;
        options.formulation.every_node_holds = every;
        options.stop = no_early_stop();
        const auto report = milp_placement({cluster, small_model(4), capacities}, options);
        ASSERT_TRUE(report.ok());
        EXPECT_NEAR(report->objective, 50, 1e-6);
        if (every) {
            EXPECT_FALSE(report->placement.layers[2].empty());
        }
    }
    capacities.nodes[2].max_layers = {};
    capacities.nodes[2].tokens_per_s = {0};
    const auto report = milp_placement({cluster, small_model(4), capacities}, {});
    ASSERT_TRUE(report.ok());
    EXPECT_NEAR(report->objective, 50, 1e-6);
    EXPECT_TRUE(report->placement.layers[2].empty());
}

TEST(Milp, PartsOfThePublishedClusterEqualExhaustiveSearch) {
    for (const std::int32_t m : {2, 3}) {
        if (kSanitized && m > 2) break;
        const PublishedProblem problem = part_of_ablation(m);
        for (const bool partial : {false, true}) {
            MilpOptions options;
            options.formulation.partial = partial;
            options.stop = no_early_stop();
            const MilpReport report = solve(problem, options);
            const FlowOptions flow{.partial = partial};
            const double expected =
                EveryPlacement({problem.cluster, problem.model, problem.capacities}, flow, true)
                    .best();
            EXPECT_TRUE(report.proven());
            EXPECT_NEAR(report.objective, expected, 1e-3) << m << (partial ? " partial" : "");
            EXPECT_NEAR(report.max_flow, report.objective, 1e-3);
        }
    }
}

// Nodes that are alike may exchange their layers in the start, but no flow is lost by it.
TEST(MilpProgram, EqualNodesStartInOrder) {
    CapacityTable capacities;
    for (const double speed : {60.0, 90.0, 60.0, 60.0}) {
        NodeCapacity node;
        for (auto& row : node.max_layers) row = {2, 2};
        node.tokens_per_s = {0, speed, speed / 2};
        node.kv_tokens = {0, 1, 1};
        capacities.nodes.push_back(node);
    }
    spec::ClusterSpec cluster = cluster_of(std::vector<spec::NodeSpec>(4, machine("n", 1, 1)));
    const MilpFormulation formulation{.every_node_holds = false, .order_equals = true};
    const spec::ModelSpec model = small_model(6);
    const spec::Placement placement{{{4, 6}, {2, 4}, {}, {0, 2}}};
    const auto order_rows = [](const MilpProgram& milp) {
        return std::count_if(milp.program().rows.begin(), milp.program().rows.end(),
                             [](const auto& row) { return row.name.starts_with("order_"); });
    };
    const MilpProgram milp({cluster, model, capacities}, all_links(cluster), formulation);
    EXPECT_EQ(order_rows(milp), 2);
    const std::vector<double> values = milp.start(placement);
    EXPECT_EQ(milp.placement(values).layers,
              (std::vector<spec::LayerRange>{{}, {2, 4}, {0, 2}, {4, 6}}));
    EXPECT_NEAR(mip::objective_of(milp.program(), values), milp.flow(placement), 1e-6);
    EXPECT_NEAR(milp.flow(placement), 30, 1e-6);
    // One link that differs makes its node another.
    for (spec::LinkSpec& link : cluster.links) {
        if (link.from == 2 && link.to == 1) link.bandwidth_bytes_per_s /= 2;
    }
    EXPECT_EQ(
        order_rows(MilpProgram({cluster, model, capacities}, all_links(cluster), formulation)), 1);
}

TEST(Milp, TheTighterFormProvesFiveMachinesToo) {
    for (const bool partial : {false, true}) {
        if (kSanitized && !partial) continue;
        const PublishedProblem problem = part_of_ablation(partial ? 4 : 5);
        MilpOptions options;
        options.formulation.partial = partial;
        options.formulation.order_equals = true;
        options.formulation.flow_bound =
            flow_bounds({problem.cluster, problem.model, problem.capacities}).best;
        options.start = even_placement(problem.capacities, problem.model.n_layers);
        options.stop = no_early_stop();
        const MilpReport report = solve(problem, options);
        EXPECT_TRUE(report.proven());
        EXPECT_TRUE(report.start_used) << report.start_note;
        EXPECT_NEAR(report.objective, 286.587, 1e-3);
        EXPECT_NEAR(report.max_flow, report.objective, 1e-3);
    }
}

TEST(Milp, FourMachinesOfThePublishedClusterAreProvenFromAHeuristicStart) {
    if (kSanitized) GTEST_SKIP() << "no sanitizer sees the solver";
    const PublishedProblem problem = part_of_ablation(4);
    MilpOptions options;
    options.start = even_placement(problem.capacities, problem.model.n_layers);
    options.stop = no_early_stop();
    const MilpReport report = solve(problem, options);
    EXPECT_TRUE(report.proven());
    EXPECT_TRUE(report.start_used) << report.start_note;
    EXPECT_NEAR(report.incumbents.front().tokens_per_s, report.start_flow, 1e-6);
    EXPECT_NEAR(report.objective, 286.587, 1e-3);
    EXPECT_NEAR(report.max_flow, report.objective, 1e-3);
}

// Published: "User MIP start objective -0", the links of the start were pruned away.
TEST(Milp, PruningKeepsTheLinksOfTheStart) {
    const PublishedProblem problem = published_problem("highhet42", "llama2-70b", "highhet42");
    MilpOptions options;
    options.start = swarm_placement(problem.capacities, problem.model.n_layers, 20);
    options.start_method = "swarm";
    options.stop.asked = [] { return true; };
    options.stop.near_bound = 0;
    MilpReport report = solve(problem, options);
    EXPECT_TRUE(report.start_used);
    EXPECT_NEAR(report.start_flow, 4892.2424, 1e-3);
    EXPECT_NEAR(report.max_flow, 4892.2424, 1e-3);
    EXPECT_EQ(report.stop_reason, MilpStop::asked);
    EXPECT_TRUE(report.only_links.empty());
    options.prune.emplace();
    report = solve(problem, options);
    EXPECT_NEAR(report.start_flow, 4892.2424, 1e-3);
    EXPECT_TRUE(report.start_used) << report.start_note;
    EXPECT_TRUE(report.agrees());
    EXPECT_FALSE(report.improved());
    EXPECT_EQ(report.all_links, 1806);
    EXPECT_GT(report.links, 876);  // as many as are left without a start
    EXPECT_LT(report.links, 1000);
    EXPECT_EQ(report.only_links.size(), static_cast<std::size_t>(report.links));
    const std::string words = describe_milp(report);
    EXPECT_NE(words.find("cbc found nothing better than its start"), std::string::npos) << words;
    EXPECT_NE(words.find("start: swarm, 4892.24 tokens/s over these links, taken"),
              std::string::npos)
        << words;
}

TEST(Milp, AStartThatCarriesNothingIsDeclinedInWords) {
    const auto cluster = cluster_of({machine("a", 1, 1), machine("b", 1, 1)});
    CapacityTable capacities;
    for (int i = 0; i < 2; ++i) {
        NodeCapacity node;
        for (auto& row : node.max_layers) row = {2, 2};
        node.tokens_per_s = {0, 90, 45};
        node.kv_tokens = {0, 1, 1};
        capacities.nodes.push_back(node);
    }
    MilpOptions options;
    options.start = spec::Placement{{{0, 2}, {}}};  // the last two layers are nowhere
    options.start_method = "nobody";
    const auto report = milp_placement({cluster, small_model(4), capacities}, options);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_TRUE(report->start_given);
    EXPECT_FALSE(report->start_used);
    EXPECT_EQ(report->start_flow, 0);
    EXPECT_TRUE(report->improved());
    EXPECT_TRUE(report->agrees());
    EXPECT_NEAR(report->objective, 45, 1e-6);
    const std::string words = describe_milp(*report);
    EXPECT_NE(words.find("declined: it carries nothing over the program's links"),
              std::string::npos)
        << words;
}

TEST(Milp, AnObjectiveThatItsPlacementDoesNotCarryIsSaid) {
    MilpReport report;
    report.solver = "cbc";
    report.objective = 50;
    report.max_flow = 40;
    EXPECT_FALSE(report.agrees());
    EXPECT_NE(describe_milp(report).find("50.0000, is not the maximum flow of its placement, 40"),
              std::string::npos);
    report.objective = 1.5e-9;  // within the solver's tolerance, and nothing
    report.max_flow = 0;
    EXPECT_TRUE(report.agrees());
    EXPECT_FALSE(report.found());
    EXPECT_NE(describe_milp(report).find("cbc found nothing that carries a token"),
              std::string::npos);
}

TEST(Milp, AStartThatDoesNotFitIsAnError) {
    const PublishedProblem problem = random_problem(3, 0);
    MilpOptions options;
    options.start = spec::Placement{std::vector<spec::LayerRange>(problem.cluster.nodes.size(),
                                                                  {0, problem.model.n_layers + 1})};
    EXPECT_FALSE(
        milp_placement({problem.cluster, problem.model, problem.capacities}, options).ok());
    options.start.reset();
    options.solver = "oracle";
    EXPECT_FALSE(
        milp_placement({problem.cluster, problem.model, problem.capacities}, options).ok());
}

// Rounding the relaxation is no method. Its starts are all 0 (that opens every link a
// little), so the rounded placement leaves layers bare.
TEST(Milp, ARoundedRelaxationHasNoFlow) {
    CapacityTable capacities;
    for (int i = 0; i < 3; ++i) {
        NodeCapacity node;
        for (auto& row : node.max_layers) row = {3, 3};
        node.tokens_per_s = {0, 90, 45, 30};
        node.kv_tokens = {0, 1, 1, 1};
        capacities.nodes.push_back(node);
    }
    const auto cluster = cluster_of({machine("a", 1, 1), machine("b", 1, 1), machine("c", 1, 1)});
    const spec::ModelSpec model = small_model(6);
    const MilpProgram milp({cluster, model, capacities}, all_links(cluster), {});
    mip::Program relaxed = milp.program();
    for (auto& column : relaxed.columns) column.integer = false;
    const auto cbc = mip::make_solver("cbc");
    ASSERT_TRUE(cbc.ok());
    const auto loose = (*cbc)->solve(relaxed, {});
    ASSERT_TRUE(loose.ok());
    ASSERT_EQ(loose->outcome, mip::Outcome::optimal);
    std::vector<double> rounded = loose->values;
    for (double& value : rounded) value = std::round(value);
    EXPECT_EQ(milp.flow(milp.placement(rounded)), 0);
    const auto report = milp_placement({cluster, model, capacities}, {});
    ASSERT_TRUE(report.ok());
    EXPECT_NEAR(report->objective, 45, 1e-6);  // three stages of two layers
    EXPECT_GT(loose->objective, report->objective);
}

}  // namespace
}  // namespace helix::plan::milp_test
