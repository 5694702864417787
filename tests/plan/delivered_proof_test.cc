#include "plan/bounds/delivered_proof.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/index.h"
#include "base/random.h"
#include "plan/bounds/outward.h"
#include "plan/plan_fixtures.h"
#include "spec/cost_model.h"

// What proves a bound on delivered tokens, against schedules, in more precise arithmetic.

namespace helix::plan::delivered_proof_test {
namespace {

using base::at;

// Arithmetic that is 2,048 times as precise as that of the proofs.
using Precise = long double;
static_assert(std::numeric_limits<Precise>::digits >= 64);

TEST(Outward, IsTheNextDoubleOnEitherSide) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    base::Random random(1);
    std::vector<double> all = {0.0, -0.0, 1.0, -1.0, 1e308, -1e308, 5e-324, -5e-324, kInfinity};
    for (int i = 0; i < 1000; ++i) {
        all.push_back(
            std::ldexp(random.uniform() - 0.5, static_cast<int>(random.between(-1000, 1000))));
    }
    for (const double x : all) {
        EXPECT_EQ(above(x), std::nextafter(x, kInfinity));
        EXPECT_EQ(below(x), std::nextafter(x, -kInfinity));
    }
    EXPECT_TRUE(std::isnan(above(std::nan(""))));
}

TEST(Outward, OperationsEncloseWhatIsExact) {
    base::Random random(2);
    for (int i = 0; i < 10'000; ++i) {
        const double a = std::ldexp(random.uniform(), static_cast<int>(random.between(-40, 40)));
        const double b =
            std::ldexp(random.uniform() + 1e-9, static_cast<int>(random.between(-40, 40)));
        const Precise wide = a;
        EXPECT_GT(add_up(a, b), wide + b);
        EXPECT_LT(add_down(a, b), wide + b);
        EXPECT_GT(subtract_up(a, b), wide - b);
        EXPECT_LT(subtract_down(a, b), wide - b);
        EXPECT_GT(multiply_up(a, b), wide * b);
        EXPECT_LT(multiply_down(a, b), wide * b);
        EXPECT_GT(divide_up(a, b), wide / b);
        EXPECT_LT(divide_down(a, b), wide / b);
    }
}

// Batches that are exactly convex, in powers of two: row_s rises by whole steps, batch_s falls by
// ever fewer.
std::vector<BatchTime> convex_batches(base::Random& random) {
    std::vector<BatchTime> batches;
    const auto n = random.between(1, 8);
    std::int64_t row = random.between(1, 1'000'000);
    std::int64_t fall = random.between(1'000'000, 2'000'000);
    std::int64_t batch = 100'000'000;
    for (std::int64_t b = 0; b < n; ++b) {
        batches.push_back({std::ldexp(static_cast<double>(row), -40),
                           std::ldexp(static_cast<double>(batch), -40)});
        row += 1'000 + random.between(0, 2);
        fall -= random.between(1, 100'000);
        batch -= fall;
    }
    return batches;
}

struct Case {
    MachineKind kind;
    TokenNeeds needs;
    DeliveredPrices prices;
    double flow = 0;
};

Case random_case(base::Random& random) {
    Case made;
    made.kind.count = static_cast<std::int32_t>(random.between(1, 5));
    made.needs.n_layers = static_cast<std::int32_t>(random.between(1, 7));
    const auto most = random.between(1, made.needs.n_layers);
    for (std::int64_t j = 0; j <= most; ++j) {
        made.kind.kv_tokens.push_back(j == 0 ? 0 : 1e4 * random.uniform() / static_cast<double>(j));
    }
    made.kind.prompt_row_s = 1e-6 * random.uniform();
    made.kind.batches = convex_batches(random);
    made.needs.prompt_rows = 3 * random.uniform();
    const auto contexts = random.between(1, 3);
    for (std::int64_t c = 0; c < contexts; ++c) {
        made.needs.contexts.push_back(
            {100.0 * static_cast<double>(c + 1) / 3, 1 / static_cast<double>(contexts)});
        made.prices.decodes.push_back(random.uniform());
    }
    made.needs.travel_s = 0.1 * random.uniform();
    made.prices.prompts = random.uniform();
    made.prices.kv = 1e-4 * random.uniform();
    made.prices.held = random.chance(0.2) ? 0 : 1e-4 * random.uniform();
    made.flow = std::pow(10.0, 6 * random.uniform());
    return made;
}

// Times that rise and fall a little from size to size, as measured tables have them.
class RoughCosts final : public spec::CostModel {
  public:
    explicit RoughCosts(std::uint64_t seed) : seed_(seed) {}
    double layer_s(const spec::NodeSpec&, std::int32_t decodes, std::int32_t rows) const override {
        base::Random random(seed_ + static_cast<std::uint64_t>(decodes) * 10'007U);
        const double rough = 1 + 0.05 * random.uniform();
        return (decodes > 0 ? 1e-3 + 1e-5 * rough * decodes : 1e-4) + 3e-5 * rows;
    }

  private:
    std::uint64_t seed_;
};

TEST(MachineKinds, HaveAnExactlyConvexBatchForEverySizeThatTakesNoMoreTime) {
    spec::ClusterSpec cluster{.name = "one", .nodes = {}, .links = {}};
    cluster.nodes.resize(1);
    const spec::ModelSpec model = small_model(2);
    base::Random random(3);
    const CapacityTable capacities = random_capacities(random, 1, 2);
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
        const RoughCosts costs(seed);
        const auto kinds = machine_kinds({cluster, model, capacities}, costs, {});
        ASSERT_EQ(kinds.size(), 1U);
        const std::vector<BatchTime>& batches = kinds.front().batches;
        ASSERT_GT(batches.size(), 2U);
        for (std::size_t b = 0; b + 2 < batches.size(); ++b) {
            const auto slope = [&](std::size_t at) {
                return (Precise(batches[at + 1].batch_s) - batches[at].batch_s) /
                       (Precise(batches[at + 1].row_s) - batches[at].row_s);
            };
            EXPECT_LT(slope(b), slope(b + 1));
            EXPECT_LT(slope(b + 1), 0);
        }
        for (int i = 0; i < 2000; ++i) {
            const auto decodes = static_cast<std::int32_t>(random.between(1, 128));
            const auto rows = static_cast<std::int32_t>(random.between(0, 200));
            const Precise row_price = std::pow(10.0, 6 * random.uniform() - 3);
            const Precise left = Precise(costs.layer_s(cluster.nodes[0], decodes, rows)) -
                                 Precise(rows) * kinds.front().prompt_row_s;
            Precise least = std::numeric_limits<Precise>::infinity();
            for (const BatchTime& batch : batches) {
                least = std::min(least, row_price * batch.row_s + batch.batch_s);
            }
            ASSERT_LE(least, row_price * left / decodes + left) << decodes << " and " << rows;
        }
    }
}

// One kind of rows as a machine may run it: all in one size of batches.
struct Rows {
    Precise earned = 0;  // if it ran those of all layers
    Precise busy = 0;
};

// For each context and for prompts, each of the sizes.
std::vector<std::vector<Rows>> ways(const Case& c) {
    std::vector<std::vector<Rows>> all;
    const Precise rows = Precise(c.flow) * c.needs.n_layers;
    for (std::size_t k = 0; k < c.needs.contexts.size(); ++k) {
        const ContextShare& context = c.needs.contexts[k];
        std::vector<Rows> sizes;
        for (const BatchTime& batch : c.kind.batches) {
            const Precise held =
                rows * context.share * c.prices.held * context.tokens * batch.batch_s;
            sizes.push_back({c.prices.decodes[k] - held, rows * context.share * batch.row_s});
        }
        all.push_back(std::move(sizes));
    }
    all.push_back({{c.prices.prompts, rows * c.needs.prompt_rows * c.kind.prompt_row_s}});
    return all;
}

// The most of all schedules in which each kind of rows has one size, by time: rows that earn most
// for their time come first.
Precise best_schedule(const std::vector<std::vector<Rows>>& all, Precise part) {
    std::vector<std::size_t> size(all.size(), 0);
    Precise best = 0;
    for (;;) {
        std::vector<Rows> chosen;
        for (std::size_t k = 0; k < all.size(); ++k) {
            if (all[k][size[k]].earned > 0) chosen.push_back(all[k][size[k]]);
        }
        std::sort(chosen.begin(), chosen.end(), [](const Rows& a, const Rows& b) {
            return a.earned * b.busy > b.earned * a.busy;
        });
        Precise left = 1;
        Precise earned = 0;
        for (const Rows& rows : chosen) {
            const Precise ran = rows.busy > 0 ? std::min(part, left / rows.busy) : part;
            earned += ran * rows.earned;
            left -= ran * rows.busy;
        }
        best = std::max(best, earned);
        std::size_t k = 0;
        while (k < all.size() && ++size[k] == all[k].size()) size[k++] = 0;
        if (k == all.size()) return best;
    }
}

TEST(MachineEarnings, AreNeverLessThanWhatAScheduleEarns) {
    int tight = 0;
    for (std::uint64_t seed = 1; seed <= 300U; ++seed) {
        base::Random random(seed);
        const Case c = random_case(random);
        const MachineEarnings earnings(c.kind, c.needs, c.prices, c.flow);
        const auto all = ways(c);
        for (std::int32_t j = 1; j <= c.kind.most(); ++j) {
            const Precise best = best_schedule(all, Precise(j) / c.needs.n_layers);
            const Precise bound = earnings.by_layers()[at(j)];
            // That of the schedules itself is rounded, by a few steps of its arithmetic.
            ASSERT_GE(bound, best * (1 - 64 * std::numeric_limits<Precise>::epsilon()))
                << "seed " << seed << ", " << j << " layers";
            tight += bound <= best * (1 + 1e-13L) ? 1 : 0;
        }
    }
    EXPECT_GT(tight, 100);
}

// The margin at these prices, from what rows earn and what KV earns, in precise arithmetic.
Precise exact_margin(const Case& c, const std::vector<MachineKind>& kinds, double held_tokens) {
    Precise needed = c.prices.prompts;
    Precise context = 0;
    for (std::size_t k = 0; k < c.needs.contexts.size(); ++k) {
        needed += c.prices.decodes[k];
        context += Precise(c.needs.contexts[k].share) * c.needs.contexts[k].tokens;
    }
    needed += Precise(c.prices.kv) * c.needs.n_layers * held_tokens;
    needed += c.prices.held * (context * c.flow * c.needs.travel_s - held_tokens);
    for (const MachineKind& kind : kinds) {
        Case own = c;
        own.kind = kind;
        const auto all = ways(own);
        Precise best = 0;
        for (std::int32_t j = 1; j <= kind.most(); ++j) {
            const Precise kv =
                Precise(c.prices.kv) * j * std::min(kind.kv_tokens[at(j)], held_tokens);
            best = std::max(best, best_schedule(all, Precise(j) / c.needs.n_layers) + kv);
        }
        needed -= best * kind.count;
    }
    return needed;
}

TEST(DeliveredProof, HasNoGreaterMarginThanThereIs) {
    int close = 0;
    for (std::uint64_t seed = 1; seed <= 200U; ++seed) {
        base::Random random(seed);
        Case c = random_case(random);
        std::vector<MachineKind> kinds = {c.kind};
        if (random.chance(0.5)) {
            kinds.push_back(c.kind);
            kinds.back().batches = convex_batches(random);
        }
        const double held_tokens = 1e4 * random.uniform();
        const DeliveredProof proof(kinds, c.needs, c.prices, c.flow);
        const Precise exact = exact_margin(c, kinds, held_tokens);
        const Precise margin = proof.margin(held_tokens);
        ASSERT_LE(margin, exact + 1e-17L) << "seed " << seed;
        close += margin >= exact - 1e-12L ? 1 : 0;
    }
    EXPECT_GT(close, 20);
}

// One machine whose KV memory is full: which flow is possible is known, and so are the prices that
// prove that no more is.
struct FullMachine {
    std::vector<MachineKind> kinds;
    TokenNeeds needs;
    double most_flow = 0;  // rounded down

    FullMachine() {
        const double batch_s = 0x1p-7;
        kinds.push_back({.count = 1,
                         .kv_tokens = {0, 1e4, 1e4, 1e4, 1e4},
                         .prompt_row_s = 0x1p-40,
                         .batches = {{0x1p-40, batch_s}}});
        needs.n_layers = 4;
        needs.prompt_rows = 1;
        needs.contexts = {{100, 0.5}, {199, 0.5}};
        // Rows of 149.5 tokens of context in four batches hold all of the memory.
        most_flow = below(below(1e4 / 149.5 / batch_s / 4));
    }
    DeliveredPrices prices(double flow) const {
        DeliveredPrices prices;
        for (const ContextShare& context : needs.contexts) {
            prices.decodes.push_back(flow * needs.n_layers * context.share * context.tokens *
                                     kinds.front().batches.front().batch_s);
        }
        prices.held = 1;
        return prices;
    }
};

TEST(DeliveredProof, NoPricesProveThatWhatIsPossibleIsNot) {
    const FullMachine full;
    for (std::uint64_t seed = 1; seed <= 2000U; ++seed) {
        base::Random random(seed);
        const double size = std::pow(10.0, -17 + 12 * random.uniform());
        const auto perturb = [&](double& price) {
            price *= 1 + size * (2 * random.uniform() - 1);
            if (random.chance(0.1)) price = static_cast<double>(static_cast<float>(price));
        };
        DeliveredPrices prices = full.prices(full.most_flow);
        for (double& price : prices.decodes) perturb(price);
        perturb(prices.held);
        prices.kv = random.chance(0.5) ? 0 : size * random.uniform();
        prices.prompts = random.chance(0.5) ? 0 : size * random.uniform();
        const DeliveredProof proof(full.kinds, full.needs, prices, full.most_flow);
        ASSERT_LE(proof.margin(1e4), 0) << "seed " << seed;
    }
}

TEST(DeliveredProof, ProvesFlowsThatAreHardlyMoreThanWhatIsPossible) {
    const FullMachine full;
    const double flow = full.most_flow * (1 + 1e-14);
    const DeliveredProof proof(full.kinds, full.needs, full.prices(flow), flow);
    EXPECT_GT(proof.margin(1e4), 0);
    EXPECT_EQ(proof.proven_up_to(0, {1e4}), 1e4);
}

TEST(DeliveredProof, PricesThatAreNoneCountAsNothing) {
    const FullMachine full;
    const double flow = full.most_flow * 2;
    DeliveredPrices prices = full.prices(flow);
    ASSERT_GT(DeliveredProof(full.kinds, full.needs, prices, flow).margin(1e4), 0);
    for (const double none :
         {-1.0, 0.0, std::nan(""), 1e300, 1e-300, std::numeric_limits<double>::infinity()}) {
        prices.kv = none;
        prices.prompts = none;
        const double margin = DeliveredProof(full.kinds, full.needs, prices, flow).margin(1e4);
        EXPECT_NEAR(margin, 1e4, 1e-6) << none;
        DeliveredPrices no_rows = prices;
        for (double& price : no_rows.decodes) price = none;
        EXPECT_LE(DeliveredProof(full.kinds, full.needs, no_rows, flow).margin(1e4), 0) << none;
    }
}

}  // namespace
}  // namespace helix::plan::delivered_proof_test
