#include "plan/mip/external_solver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "mip_fixtures.h"
#include "plan/mip/child_process.h"

namespace helix::plan::mip::external_solver_test {
namespace {

namespace fs = std::filesystem;

// A PATH that begins with a folder of programs written by the test; temporary files go there too.
class FakePath {
  public:
    explicit FakePath(bool keep_old = true) : folder_(TemporaryFolder::make().value()) {
        const char* old = std::getenv("PATH");
        old_ = old != nullptr ? old : "";
        const std::string path = folder_.path().string() + (keep_old ? ":" + old_ : "");
        ::setenv("PATH", path.c_str(), 1);
        ::setenv("TMPDIR", folder_.path().c_str(), 1);
    }
    ~FakePath() {
        ::setenv("PATH", old_.c_str(), 1);
        ::unsetenv("TMPDIR");
        const fs::directory_iterator left(folder_.path());
        EXPECT_TRUE(std::all_of(begin(left), end(left), [](const auto& entry) {
            return !entry.is_directory();
        })) << "a solver's folder stayed behind";
    }
    FakePath(const FakePath&) = delete;
    FakePath& operator=(const FakePath&) = delete;

    void add(const char* name, const std::string& script) const {
        EXPECT_TRUE(write_text(folder_ / name, "#!/bin/sh\n" + script).ok());
        fs::permissions(folder_ / name, fs::perms::owner_all);
    }
    std::string file(const char* name) const { return folder_ / name; }

  private:
    TemporaryFolder folder_;
    std::string old_;
};

// max 3x + 2y, x + y <= 4, x + 3y <= 6, x <= 3, whole numbers: (3, 1), 11.
Program two_columns() {
    Program program;
    program.columns = {{"x", 0, 3, 3, true, 0}, {"y", 0, kInfinity, 2, true, 0}};
    program.rows = {{"a", -kInfinity, 4, {{0, 1}, {1, 1}}}, {"b", -kInfinity, 6, {{0, 1}, {1, 3}}}};
    return program;
}

// Does what highs does with our arguments, with the cbc command as its engine.
const char* const kHighsByCbc = R"(
while [ $# -gt 1 ]; do
    case "$1" in
        --solution_file) out=$2; shift;;
        --options_file) grep -q '^mip_rel_gap = ' "$2" || exit 3; shift;;
        --read_solution_file) grep -q '^# Columns' "$2" && echo 'MIP start solution is feasible'; shift;;
    esac
    shift
done
cbc "$1" -printingOptions all -solve -solution raw > /dev/null 2>&1
awk 'NR==1 { if ($1 == "Optimal") print "Model status\nOptimal\n\n# Primal solution values\nFeasible"
             else print "Model status\nInfeasible\n\n# Primal solution values\nNone"
             optimal = $1 == "Optimal" }
     NR>1 && optimal { for (i = 1; i <= NF; ++i) if ($i ~ /^c[0-9]+$/) { n++; line[n] = $i " " $(i+1) } }
     END { if (optimal) { print "# Columns " n; for (k = 1; k <= n; ++k) print line[k] } }' raw > "$out"
)";

TEST(ExternalSolver, HighsGetsTheFileAndItsSolutionComesBack) {
    if (!find_program("cbc")) GTEST_SKIP() << "no cbc command here to play the part of highs";
    const FakePath path;
    path.add("highs", kHighsByCbc);
    const auto highs = make_highs_solver();
    const auto cbc = make_solver("cbc");
    int optimal = 0;
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        base::Random random(seed);
        const Program program = random_program(random, 2, 2, 2);
        const auto expected = (*cbc)->solve(program, {});
        ASSERT_TRUE(expected.ok());
        SolveOptions options;
        if (!expected->values.empty()) options.start = expected->values;
        const auto found = highs->solve(program, options);
        ASSERT_TRUE(found.ok()) << found.error().message;
        ASSERT_EQ(found->outcome, expected->outcome);
        ASSERT_EQ(found->start_used, !options.start.empty());
        if (found->outcome != Outcome::optimal) continue;
        ASSERT_NEAR(found->objective, expected->objective, 1e-5);
        ASSERT_EQ(found->bound, found->objective);
        ++optimal;
    }
    EXPECT_GT(optimal, 10);
}

TEST(ExternalSolver, GurobiIsToldGapStartAndResultFile) {
    const FakePath path;
    path.add("gurobi_cl", "echo \"$@\" | tr ' ' '\\n' > '" + path.file("arguments") + R"('
for word in "$@"; do
    case "$word" in
        ResultFile=*) printf '# Objective value = -11\nc0 3\nc1 1\n' > "${word#ResultFile=}";;
        InputFile=*) cat "${word#InputFile=}" >> ')" +
                              path.file("arguments") + R"(';;
    esac
done
echo 'Loaded user MIP start with objective -3'
echo 'Explored 42 nodes (99 simplex iterations) in 0.01 seconds'
echo 'Optimal solution found (tolerance 1.00e-01)'
echo 'Best objective -1.100000000000e+01, best bound -1.150000000000e+01, gap 4.5%'
)");
    SolveOptions options;
    options.relative_gap = 0.1;
    options.start = {1, 0};
    const auto solution = make_gurobi_solver()->solve(two_columns(), options);
    ASSERT_TRUE(solution.ok()) << solution.error().message;
    EXPECT_EQ(solution->outcome, Outcome::optimal);
    EXPECT_EQ(solution->objective, 11);
    EXPECT_EQ(solution->bound, 11.5);
    EXPECT_EQ(solution->nodes, 42);
    EXPECT_TRUE(solution->start_used);
    const std::string arguments = read_text(path.file("arguments")).value_or("");
    EXPECT_TRUE(arguments.starts_with("MIPGap=0.1\n")) << arguments;
    EXPECT_TRUE(arguments.ends_with("program.mps\nc0 1\nc1 0\n")) << arguments;
}

TEST(ExternalSolver, AProgramThatIsNotThereIsAnErrorInWords) {
    const FakePath path(false);
    for (const char* name : {"highs", "gurobi"}) {
        auto solver = make_solver(name);
        ASSERT_TRUE(solver.ok());
        const auto solution = (*solver)->solve(two_columns(), {});
        ASSERT_FALSE(solution.ok());
        EXPECT_EQ(solution.error().code, base::Errc::not_found);
        EXPECT_NE(solution.error().message.find(name), std::string::npos);
        EXPECT_NE(solution.error().message.find("PATH"), std::string::npos);
    }
}

TEST(ExternalSolver, AProgramThatFailsIsQuoted) {
    const FakePath path;
    path.add("highs", "echo 'licence of the other kind'; exit 7\n");
    const auto solution = make_highs_solver()->solve(two_columns(), {});
    ASSERT_FALSE(solution.ok());
    EXPECT_NE(solution.error().message.find("code 7"), std::string::npos);
    EXPECT_NE(solution.error().message.find("licence of the other kind"), std::string::npos);
}

TEST(ExternalSolver, ASolutionThatBreaksARowIsNotBelieved) {
    const FakePath path;
    path.add("gurobi_cl", R"(
for word in "$@"; do
    case "$word" in ResultFile=*) printf 'c0 3\nc1 2\n' > "${word#ResultFile=}";; esac
done
echo 'Optimal solution found (tolerance 0)'
)");
    const auto solution = make_gurobi_solver()->solve(two_columns(), {});
    ASSERT_FALSE(solution.ok());
    EXPECT_NE(solution.error().message.find("row 0 (a)"), std::string::npos)
        << solution.error().message;
}

TEST(ExternalSolver, StopEndsTheProgramAndKeepsWhatItHandsOver) {
    const FakePath path;
    const std::string answer = R"(
for word in "$@"; do case "$word" in ResultFile=*) out="${word#ResultFile=}";; esac; done
trap 'printf "c0 1\nc1 0\n" > "$out"; echo "Best objective -3, best bound -11.5, gap 99%"; exit 0' INT
)";
    const std::string ready = path.file("ready");
    path.add("gurobi_cl", answer + "touch " + ready + "\nwhile :; do sleep 0.02; done\n");
    path.add("highs", "touch " + ready + "; sleep 60\n");
    const auto started = std::chrono::steady_clock::now();
    SolveOptions options;
    options.stop = [&](double best, double bound) {
        EXPECT_EQ(best, -kInfinity);
        EXPECT_EQ(bound, kInfinity);
        return fs::remove(ready);
    };
    // As if a shell had started us in its background.
    const auto before = std::signal(SIGINT, SIG_IGN);
    const auto some = make_gurobi_solver()->solve(two_columns(), options);
    std::signal(SIGINT, before);
    ASSERT_TRUE(some.ok()) << some.error().message;
    EXPECT_EQ(some->outcome, Outcome::feasible);
    EXPECT_EQ(some->objective, 3);
    EXPECT_EQ(some->bound, 11.5);
    const auto nothing = make_highs_solver()->solve(two_columns(), options);
    ASSERT_TRUE(nothing.ok()) << nothing.error().message;
    EXPECT_EQ(nothing->outcome, Outcome::stopped);
    EXPECT_TRUE(nothing->values.empty());
    EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(20));
}

}  // namespace
}  // namespace helix::plan::mip::external_solver_test
