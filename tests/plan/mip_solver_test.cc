#include "plan/mip/solver.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/effort.h"
#include "mip_fixtures.h"

namespace helix::plan::mip::mip_solver_test {
namespace {

std::unique_ptr<Solver> cbc() {
    auto solver = make_solver("cbc");
    EXPECT_TRUE(solver.ok());
    return std::move(*solver);
}

Solution solve(const Program& program, const SolveOptions& options = {}) {
    auto solution = cbc()->solve(program, options);
    EXPECT_TRUE(solution.ok()) << solution.error().message;
    return *solution;
}

// max 3x + 2y; x + y <= 4, x + 3y <= 6, x <= 3.
Program two_columns(bool integer) {
    Program program;
    program.columns = {{"x", 0, 3, 3, integer, 0}, {"y", 0, kInfinity, 2, integer, 0}};
    program.rows = {{"a", -kInfinity, 4, {{0, 1}, {1, 1}}}, {"b", -kInfinity, 6, {{0, 1}, {1, 3}}}};
    return program;
}

// max sum of values under one weight limit, 0/1 items of nearly equal worth: needs branching.
Program knapsack(int items) {
    Program program;
    Program::Row weight{"weight", -kInfinity, 0, {}};
    for (int i = 0; i < items; ++i) {
        const double w = 1000 + (i * 7919) % 613;
        program.columns.push_back({"item", 0, 1, w + (i * 31) % 5, true, 0});
        weight.terms.push_back({i, w});
        weight.upper += w / 2;
    }
    weight.upper = std::floor(weight.upper);
    program.rows.push_back(std::move(weight));
    return program;
}

TEST(CbcSolver, SolvesALinearProgramWithItsDuals) {
    const Solution solution = solve(two_columns(false));
    EXPECT_EQ(solution.outcome, Outcome::optimal);
    EXPECT_NEAR(solution.objective, 11, 1e-9);
    EXPECT_NEAR(solution.bound, 11, 1e-9);
    ASSERT_EQ(solution.values.size(), 2U);
    EXPECT_NEAR(solution.values[0], 3, 1e-9);
    EXPECT_NEAR(solution.values[1], 1, 1e-9);
    // Both rows are tight at (3, 1); one more on the right of either is worth at most its dual.
    ASSERT_EQ(solution.row_duals.size(), 2U);
    EXPECT_NEAR(4 * solution.row_duals[0] + 6 * solution.row_duals[1] +
                    3 * (3 - solution.row_duals[0] - solution.row_duals[1]),
                11, 1e-9);
}

TEST(CbcSolver, SaysInfeasibleAndUnbounded) {
    for (const bool integer : {false, true}) {
        Program program = two_columns(integer);
        program.rows[0].lower = program.rows[0].upper = 100;
        EXPECT_EQ(solve(program).outcome, Outcome::infeasible);
        program = two_columns(integer);
        program.rows.clear();
        EXPECT_EQ(solve(program).outcome, Outcome::unbounded);
    }
}

TEST(CbcSolver, IntegerProgramsWithoutRowsOrWithoutFreedomAreSolved) {
    Program program = two_columns(true);
    program.rows.clear();
    program.columns[1].upper = 2.5;
    Solution solution = solve(program);
    EXPECT_EQ(solution.outcome, Outcome::optimal);
    EXPECT_EQ(solution.values, (std::vector<double>{3, 2}));
    program.columns[1].lower = program.columns[1].upper = 2;
    program.columns[0].lower = program.columns[0].upper = 1;
    solution = solve(program);
    EXPECT_EQ(solution.outcome, Outcome::optimal);
    EXPECT_EQ(solution.objective, 7);
}

TEST(CbcSolver, LinearProgramsEqualTheirBestCorner) {
    int infeasible = 0;
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        base::Random random(seed);
        const Program program = random_program(random, 0, 1 + static_cast<int>(random.below(3)),
                                               static_cast<int>(random.below(4)));
        const auto expected = Enumeration(program).best();
        const Solution solution = solve(program);
        if (!expected) {
            ++infeasible;
            ASSERT_EQ(solution.outcome, Outcome::infeasible);
            continue;
        }
        ASSERT_EQ(solution.outcome, Outcome::optimal);
        ASSERT_NEAR(solution.objective, *expected, 1e-6);
        ASSERT_TRUE(feasible(program, solution.values));
    }
    EXPECT_GT(infeasible, 10);
    EXPECT_LT(infeasible, 300);
}

// The objective as a function of a right-hand side is concave (maximising) or convex: the dual is a
// slope between the differences to both sides.
TEST(CbcSolver, DualsAreTheSlopesOfTheOptimum) {
    int slopes = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        base::Random random(seed);
        Program program = random_program(random, 0, 3, 2);
        const Solution solution = solve(program);
        if (solution.outcome != Outcome::optimal) continue;
        for (std::size_t r = 0; r < program.rows.size(); ++r) {
            const double step = 1e-3;
            double values[2] = {};
            bool both = true;
            for (const int side : {0, 1}) {
                Program moved = program;
                moved.rows[r].lower += side == 0 ? -step : step;
                moved.rows[r].upper += side == 0 ? -step : step;
                const Solution other = solve(moved);
                both = both && other.outcome == Outcome::optimal;
                values[side] = other.objective;
            }
            if (!both) continue;
            const double before = (solution.objective - values[0]) / step;
            const double after = (values[1] - solution.objective) / step;
            ASSERT_GE(solution.row_duals[r], std::min(before, after) - 1e-5);
            ASSERT_LE(solution.row_duals[r], std::max(before, after) + 1e-5);
            if (std::abs(solution.row_duals[r]) > 1e-6) ++slopes;
        }
    }
    EXPECT_GT(slopes, 50);
}

TEST(CbcSolver, IntegerProgramsEqualEnumeration) {
    int infeasible = 0;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        base::Random random(seed);
        const Program program = random_program(random, 1 + static_cast<int>(random.below(3)),
                                               static_cast<int>(random.below(3)),
                                               1 + static_cast<int>(random.below(3)));
        const auto expected = Enumeration(program).best();
        const Solution solution = solve(program);
        if (!expected) {
            ++infeasible;
            ASSERT_EQ(solution.outcome, Outcome::infeasible);
            continue;
        }
        ASSERT_EQ(solution.outcome, Outcome::optimal);
        ASSERT_NEAR(solution.objective, *expected, 1e-6);
        ASSERT_EQ(solution.bound, solution.objective);
        ASSERT_TRUE(feasible(program, solution.values));
        ASSERT_TRUE(solution.row_duals.empty());
    }
    EXPECT_GT(infeasible, 10);
    EXPECT_LT(infeasible, 200);
}

TEST(CbcSolver, TakesAStartThatFitsAndSaysSoIfItDoesNot) {
    const Program program = knapsack(12);
    SolveOptions options;
    options.start.assign(12, 0.0);
    options.start[3] = 1;
    double first = -1;
    options.stop = [&](double best, double) {
        if (first < 0) first = best;
        return false;
    };
    Solution solution = solve(program, options);
    EXPECT_TRUE(solution.start_used);
    EXPECT_EQ(first, program.columns[3].cost);
    EXPECT_EQ(solution.outcome, Outcome::optimal);
    EXPECT_EQ(solution.objective, solve(program).objective);
    options.start.assign(12, 1.0);
    solution = solve(program, options);
    EXPECT_FALSE(solution.start_used);
    EXPECT_EQ(solution.outcome, Outcome::optimal);
}

TEST(CbcSolver, StopsWhenToldAndKeepsTheStart) {
    const Program program = knapsack(40);
    SolveOptions options;
    options.start.assign(40, 0.0);
    options.start[5] = 1;
    options.stop = [](double, double) { return true; };
    const Solution solution = solve(program, options);
    EXPECT_EQ(solution.outcome, Outcome::feasible);
    EXPECT_EQ(solution.objective, program.columns[5].cost);
    EXPECT_GE(solution.bound, solution.objective);
    options.start.clear();
    EXPECT_EQ(solve(program, options).outcome, Outcome::stopped);
    Program linear = program;
    for (auto& column : linear.columns) column.integer = false;
    EXPECT_EQ(solve(linear, options).outcome, Outcome::stopped);
    EXPECT_EQ(solve(linear).outcome, Outcome::optimal);
}

TEST(CbcSolver, ReportsABoundThatNeverCrossesTheBest) {
    if (kSanitized) GTEST_SKIP() << "no sanitizer sees the solver";
    const Program program = knapsack(25);
    SolveOptions options;
    int asked = 0;
    double last_best = -kInfinity;
    double last_bound = kInfinity;
    options.stop = [&](double best, double bound) {
        ++asked;
        EXPECT_GE(best, last_best);
        EXPECT_LE(bound, last_bound);
        EXPECT_GE(bound, best - 1e-6);
        last_best = best;
        last_bound = bound;
        return false;
    };
    const Solution solution = solve(program, options);
    EXPECT_GT(asked, 3);
    EXPECT_EQ(solution.outcome, Outcome::optimal);
    EXPECT_LE(last_best, solution.objective + 1e-6);
}

TEST(CbcSolver, EqualRunsGiveEqualAnswers) {
    if (kSanitized) GTEST_SKIP() << "no sanitizer sees the solver";
    const Program program = knapsack(25);
    const Solution first = solve(program);
    const Solution second = solve(program);
    EXPECT_EQ(first.values, second.values);
    EXPECT_EQ(first.nodes, second.nodes);
}

TEST(Solver, AnUnknownNameIsAnError) {
    const auto solver = make_solver("abacus");
    ASSERT_FALSE(solver.ok());
    EXPECT_NE(solver.error().message.find("abacus"), std::string::npos);
}

}  // namespace
}  // namespace helix::plan::mip::mip_solver_test
