#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "milp_fixtures.h"
#include "paper_data.h"
#include "plan/rules/heuristics.h"
#include "spec/placement_file.h"

// The rules of Swarm and Petals give the published placements, node by node.

namespace helix::plan::published_rules_test {
namespace {

const struct {
    const char* cluster;
    const char* model;
    const char* mix;
} kPublished[] = {{"single24", "llama2-70b", "single24"},
                  {"distributed24", "llama2-70b", "single24"},
                  {"highhet42", "llama2-70b", "highhet42"},
                  {"single24", "llama1-30b", "single24"},
                  {"distributed24", "llama1-30b", "single24"}};

spec::Placement published_layout(const std::string& cluster, const std::string& model,
                                 const char* method) {
    return spec::read_placement_file(kPaperData + "/layouts/" + cluster + "__" + model + "__" +
                                     method + ".json")
        .value()
        .placement;
}

TEST(PublishedRules, SwarmGivesThePublishedPlacements) {
    for (const auto& [cluster, model, mix] : kPublished) {
        const PublishedProblem problem = published_problem(cluster, model, mix);
        const std::int32_t n_layers = problem.model.n_layers;
        EXPECT_EQ(swarm_stages(problem.capacities, n_layers), n_layers == 80 ? 20 : 10);
        const auto placement = swarm_placement(problem.capacities, n_layers, 0);
        ASSERT_TRUE(placement.has_value());
        EXPECT_EQ(placement->layers, published_layout(cluster, model, "swarm").layers)
            << cluster << ' ' << model;
    }
}

// The published joining orders are Python's random.seed(0); random.shuffle(list(range(n))).
std::vector<std::int32_t> published_order(std::size_t n) {
    if (n == 24) {
        return {14, 0,  17, 7,  6, 11, 22, 21, 10, 4, 2,  20,
                3,  19, 5,  18, 9, 23, 15, 16, 8,  1, 13, 12};
    }
    return {36, 11, 33, 0,  37, 20, 14, 7, 18, 21, 12, 6,  5,  1,  23, 15, 10, 39, 35, 28, 27,
            40, 17, 8,  34, 3,  41, 29, 9, 4,  38, 13, 22, 30, 19, 25, 31, 32, 16, 2,  26, 24};
}

TEST(PublishedRules, PetalsInThePublishedJoiningOrderGivesThePublishedPlacements) {
    for (const auto& [cluster, model, mix] : kPublished) {
        const PublishedProblem problem = published_problem(cluster, model, mix);
        const auto order = published_order(problem.cluster.nodes.size());
        const auto placement = petals_placement(problem.capacities, problem.model.n_layers, order);
        ASSERT_TRUE(placement.has_value());
        EXPECT_EQ(placement->layers, published_layout(cluster, model, "petals").layers)
            << cluster << ' ' << model;
    }
}

}  // namespace
}  // namespace helix::plan::published_rules_test
