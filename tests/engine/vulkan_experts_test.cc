// The steps of a mixture of experts around its matrices, on a Vulkan device.

#include <gtest/gtest.h>

#include "vulkan_fixture.h"

namespace helix::engine::test::vulkan_experts_test {
namespace {

using VulkanExperts = VulkanTest;

TEST_F(VulkanExperts, RowsVisitTheSameExpertsInTheSameOrder) {
    for (const bool normalise : {false, true}) {
        for (const proof::RoutingCase& c :
             {proof::RoutingCase{1, 4, 1, normalise}, proof::RoutingCase{7, 8, 2, normalise},
              proof::RoutingCase{33, 60, 6, normalise},
              proof::RoutingCase{33, 60, 6, normalise, true},
              proof::RoutingCase{33, 60, 6, normalise, false, true},
              proof::RoutingCase{33, 60, 2, normalise, true, false, true},
              proof::RoutingCase{33, 60, 6, normalise, true, false, false, 10, 3},
              proof::RoutingCase{40, 64, 2, normalise, true, false, false, 32, 1}}) {
            EXPECT_TRUE(same_values(proof::routing_values(*vulkan_, c, 91),
                                    proof::routing_values(*cpu_, c, 91)))
                << c.rows << " rows, " << c.n_used << " of " << c.n_experts;
        }
    }
}

struct Scored {
    std::vector<float> scores, bias;
    int n_groups, n_groups_used, n_used;
};

// The weights of all experts by DeepSeek V3's rule, written down with sorts; empty where a choice
// is too close to be told from a rounding.
std::vector<double> weights_by_sorting(const Scored& s) {
    const auto n = s.scores.size();
    const std::size_t each = n / base::size_of(s.n_groups);
    std::vector<double> sigmoid, key;
    for (std::size_t e = 0; e < n; ++e) {
        sigmoid.push_back(1 / (1 + std::exp(-static_cast<double>(s.scores[e]))));
        key.push_back(sigmoid[e] + static_cast<double>(s.bias[e]));
    }
    // The numbers of the highest values; false where one of the others is nearly as high.
    const auto best = [](const std::vector<double>& values, std::vector<std::size_t>& numbers,
                         std::size_t count) {
        std::stable_sort(numbers.begin(), numbers.end(),
                         [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
        const double gap =
            count == numbers.size() ? 1 : values[numbers[count - 1]] - values[numbers[count]];
        numbers.resize(count);
        return gap == 0 || gap > 1e-5;
    };
    std::vector<double> sums;
    std::vector<std::size_t> groups, experts;
    for (std::size_t g = 0; g < base::size_of(s.n_groups); ++g) {
        std::vector<double> of(key.begin() + std::ptrdiff_t(g * each),
                               key.begin() + std::ptrdiff_t((g + 1) * each));
        std::sort(of.begin(), of.end());
        sums.push_back(of[each - 1] + of[each - 2]);
        groups.push_back(g);
    }
    bool clear = best(sums, groups, base::size_of(s.n_groups_used));
    std::sort(groups.begin(), groups.end());
    for (const std::size_t g : groups) {
        for (std::size_t e = 0; e < each; ++e) experts.push_back(g * each + e);
    }
    clear = best(key, experts, base::size_of(s.n_used)) && clear;
    double sum = 0;
    for (const std::size_t e : experts) sum += sigmoid[e];
    std::vector<double> weights(clear ? n : 0, 0.0);
    for (const std::size_t e : experts) {
        if (clear) weights[e] = sigmoid[e] / sum * 2.5;
    }
    return weights;
}

// Scores of which some are equal, also as whole groups, and biases below zero.
Scored random_scores(base::Random& random) {
    Scored s;
    s.n_groups = 1 << (1 + random.below(3));
    const std::size_t each = 2 + random.below(4);
    const std::size_t n = each * base::size_of(s.n_groups);
    s.n_groups_used = 1 + static_cast<int>(random.below(base::size_of(s.n_groups)));
    s.n_used = 1 + static_cast<int>(random.below(base::size_of(s.n_groups_used) * each));
    for (std::size_t e = 0; e < n; ++e) {
        const bool same_group = e >= each && random.chance(0.5);
        const std::size_t twin = same_group ? e - each : e / 2;
        const bool copies = e > 0 && random.chance(0.5);
        s.scores.push_back(copies ? s.scores[twin]
                                  : static_cast<float>(random.below(6000)) / 1000 - 3);
        s.bias.push_back(copies ? s.bias[twin] : static_cast<float>(random.below(4000)) / 1000 - 3);
    }
    return s;
}

// One expert's weight at a time, by factors of which the others' are zero.
TEST_F(VulkanExperts, OfGroupsTheOnesWithTheTwoBestExpertsAreKept) {
    base::Random random(17);
    int compared = 0;
    for (int trial = 0; trial < 60; ++trial) {
        const Scored s = random_scores(random);
        const std::vector<double> right = weights_by_sorting(s);
        compared += right.empty() ? 0 : 1;
        const auto n = static_cast<int>(s.scores.size());
        for (Device* device : {cpu_.get(), vulkan_.get()}) {
            const auto bias = make(*device, s.bias), one = make(*device, std::vector<float>{1});
            const auto visits = poisoned(*device, s.n_used), weight = poisoned(*device, 1);
            const std::unique_ptr<Routing> routing = device->make_routing();
            for (std::size_t e = 0; e < right.size(); ++e) {
                std::vector<float> factors(s.scores.size(), 0.0F);
                factors[e] = 1;
                const auto scores = make(*device, s.scores), of_expert = make(*device, factors);
                device->route_rows({*scores, 1, n, s.n_used, true, *routing, 2.5F, true, bias.get(),
                                    of_expert.get(), s.n_groups, s.n_groups_used});
                device->gather_visits({*routing, *one, *visits, 1});
                device->add_visits({*routing, *visits, *weight, 1, true});
                const auto got = static_cast<double>(values_of(*device, *weight)[0]);
                ASSERT_NEAR(got, right[e], 1e-5) << "trial " << trial << ", expert " << e;
                ASSERT_EQ(got > 0, right[e] > 0) << "trial " << trial << ", expert " << e;
            }
        }
    }
    EXPECT_GT(compared, 50);
}

// As Llama 4 chooses: its sigmoids round to one from scores of 17 on.
TEST_F(VulkanExperts, OfScoresWhoseSigmoidsAreEqualTheGreatestIsChosen) {
    for (Device* device : {cpu_.get(), vulkan_.get()}) {
        const auto scores = make(*device, std::vector<float>{20, 30, 25, -2, -1, -3});
        const auto factors = make(*device, std::vector<float>{2, 3, 4});
        const auto x = make(*device, std::vector<float>{1, 10});
        const auto visits = poisoned(*device, 2), sums = poisoned(*device, 2);
        const std::unique_ptr<Routing> routing = device->make_routing();
        device->route_rows({*scores, 2, 3, 1, false, *routing, 1.0F, true, nullptr, factors.get()});
        device->gather_visits({*routing, *x, *visits, 1, true});
        device->add_visits({*routing, *visits, *sums, 1, true, false});
        const std::vector<float> got = values_of(*device, *sums);
        EXPECT_EQ(got[0], 3.0F);
        EXPECT_NEAR(got[1], 10 * 3 / (1 + std::exp(1.0)), 1e-5);
    }
}

}  // namespace
}  // namespace helix::engine::test::vulkan_experts_test
