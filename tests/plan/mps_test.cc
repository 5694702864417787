#include "plan/mip/mps.h"

#include <gtest/gtest.h>

#include <unistd.h>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

#include "mip_fixtures.h"
#include "plan/mip/solver.h"

namespace helix::plan::mip::mps_test {
namespace {

namespace fs = std::filesystem;

class Folder {
  public:
    Folder() {
        std::string pattern = (fs::temp_directory_path() / "helix-mps-XXXXXX").string();
        EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
        path_ = pattern;
    }
    ~Folder() { fs::remove_all(path_); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    fs::path operator/(const std::string& name) const { return path_ / name; }

  private:
    fs::path path_;
};

std::string read_text(const fs::path& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

bool have(const char* program) {
    return std::system((std::string("command -v ") + program + " > /dev/null").c_str()) == 0;
}

// The optimum that the cbc command line finds in the file (a minimisation); nothing = infeasible.
std::optional<double> by_cbc_program(const Folder& folder) {
    const std::string command = "cbc " + (folder / "p.mps").string() + " -solve -solution " +
                                (folder / "out").string() + " > /dev/null 2>&1";
    EXPECT_EQ(std::system(command.c_str()), 0);
    const std::string text = read_text(folder / "out");
    if (!text.starts_with("Optimal")) return std::nullopt;
    return std::stod(text.substr(text.find("objective value") + 15));
}

std::optional<double> by_glpsol(const Folder& folder) {
    const std::string command = "glpsol --freemps " + (folder / "p.mps").string() + " -w " +
                                (folder / "out").string() + " > /dev/null 2>&1";
    EXPECT_EQ(std::system(command.c_str()), 0);
    std::istringstream text(read_text(folder / "out"));
    std::string line;
    while (std::getline(text, line)) {
        // "s mip ROWS COLS STATUS OBJECTIVE" or "s bas ROWS COLS PRIMAL DUAL OBJECTIVE"
        if (!line.starts_with("s ")) continue;
        std::istringstream fields(line);
        std::string s, kind, rows, cols, status, objective;
        fields >> s >> kind >> rows >> cols >> status >> objective;
        if (kind == "bas") fields >> objective;
        if (status != (kind == "bas" ? "f" : "o")) return std::nullopt;
        return std::stod(objective);
    }
    return std::nullopt;
}

using Oracle = std::optional<double> (*)(const Folder&);

void compare_with(Oracle oracle, int programs) {
    auto solver = make_solver("cbc");
    ASSERT_TRUE(solver.ok());
    int solved = 0;
    for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(programs); ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        base::Random random(seed);
        Program program = random_program(random, static_cast<int>(random.below(4)),
                                         1 + static_cast<int>(random.below(3)),
                                         1 + static_cast<int>(random.below(4)));
        for (auto& column : program.columns) column.cost += 0.1 * random.uniform();
        const Folder folder;
        std::ofstream(folder / "p.mps") << to_mps(program);
        const auto found = oracle(folder);
        const auto ours = (*solver)->solve(program, {});
        ASSERT_TRUE(ours.ok());
        ASSERT_EQ(found.has_value(), ours->outcome == Outcome::optimal);
        if (!found) continue;
        ASSERT_NEAR(*found, program.maximise ? -ours->objective : ours->objective, 1e-5);
        ++solved;
    }
    EXPECT_GT(solved, programs / 3);
}

TEST(Mps, WritesEveryKindOfRowAndBound) {
    Program program;
    program.maximise = true;
    program.columns = {{"a", 0, kInfinity, 1.5, false, 0},
                       {"b", -kInfinity, kInfinity, -0.1, false, 0},
                       {"c", -kInfinity, 7, 0, false, 0},
                       {"d", 2, 2, 0, false, 0},
                       {"e", 0, 1, 3, true, 0},
                       {"f", -3, kInfinity, 0, true, 0}};
    program.rows = {{"eq", 4, 4, {{0, 1}}},
                    {"le", -kInfinity, 0, {{1, 1}, {4, -2}}},
                    {"ge", 1e-3, kInfinity, {{2, 1.0 / 3}}},
                    {"both", 1, 3, {{0, 1}}},
                    {"free", -kInfinity, kInfinity, {{0, 9}}},
                    {"split", 1e-30, 1, {{0, 1}}}};
    EXPECT_EQ(to_mps(program),
              "NAME helix FREE\nROWS\n N cost\n E r0\n L r1\n G r2\n L r3\n G r5\n L r5u\nCOLUMNS\n"
              " c0 cost -1.5\n c0 r0 1\n c0 r3 1\n c0 r5 1\n c0 r5u 1\n"
              " c1 cost 0.1\n c1 r1 1\n"
              " c2 cost 0\n c2 r2 0.3333333333333333\n"
              " c3 cost 0\n"
              " M0 'MARKER' 'INTORG'\n"
              " c4 cost -3\n c4 r1 -2\n"
              " c5 cost 0\n"
              " M1 'MARKER' 'INTEND'\n"
              "RHS\n RHS r0 4\n RHS r2 0.001\n RHS r3 3\n RHS r5 1e-30\n RHS r5u 1\n"
              "RANGES\n RANGE r3 2\n"
              "BOUNDS\n FR BOUND c1\n MI BOUND c2\n UP BOUND c2 7\n FX BOUND c3 2\n"
              " LO BOUND c4 0\n UP BOUND c4 1\n LO BOUND c5 -3\n PL BOUND c5\n"
              "ENDATA\n");
}

TEST(Mps, TheCbcProgramFindsTheSameOptimumInTheFile) {
    if (!have("cbc")) GTEST_SKIP() << "no cbc command here";
    compare_with(by_cbc_program, 60);
}

TEST(Mps, GlpsolFindsTheSameOptimumInTheFile) {
    if (!have("glpsol")) GTEST_SKIP() << "no glpsol command here";
    compare_with(by_glpsol, 100);
}

Program two_by_two() {
    Program program;
    program.columns = {{"x", 0, 1, 1, false, 0}, {"y", 0, 1, 1, false, 0}};
    program.rows = {{"a", -kInfinity, 1, {{0, 1}, {1, 1}}}, {"b", 1e-30, 1, {{0, 1}}}};
    return program;
}

TEST(SolutionFile, HighsSectionsAreRead) {
    const auto file = parse_highs_solution(
        "Model status\nOptimal\n\n# Primal solution values\nFeasible\nObjective -1\n"
        "# Columns 2\nc0 1\nc1 2.5e-1\n# Rows 3\nr0 1\nr1 1\nr1u 1\n\n"
        "# Dual solution values\nFeasible\n# Columns 2\nc0 0\nc1 0\n"
        "# Rows 3\nr0 -1\nr1 0.5\nr1u -2\n\n# Basis\nHiGHS v1\nNone\n",
        two_by_two());
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(file->status, "Optimal");
    EXPECT_EQ(file->values, (std::vector<double>{1, 0.25}));
    EXPECT_EQ(file->row_duals, (std::vector<double>{-1, -1.5}));
    const auto none = parse_highs_solution(
        "Model status\nInfeasible\n\n# Primal solution values\nNone\n\n"
        "# Dual solution values\nNone\n",
        two_by_two());
    ASSERT_TRUE(none.ok()) << none.error().message;
    EXPECT_EQ(none->status, "Infeasible");
    EXPECT_TRUE(none->values.empty());
}

TEST(SolutionFile, ListsAreReadAndBackToTheStart) {
    const auto file = parse_solution_list(
        "# Solution for model helix\n# Objective value = 3\n"
        "c0 1\nc1 -2.25\n",
        two_by_two());
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(file->values, (std::vector<double>{1, -2.25}));
    EXPECT_EQ(to_start_list(file->values), "c0 1\nc1 -2.25\n");
    const auto none = parse_solution_list("# nothing\n", two_by_two());
    ASSERT_TRUE(none.ok());
    EXPECT_TRUE(none->values.empty());
}

TEST(SolutionFile, WhatIsNotOneIsAnErrorThatNamesTheLine) {
    const char* lists[] = {"x 1\n", "c2 1\n", "c0\n", "c0 one\n", "c0 1 2\n", "c 1\n", "c0x 1\n"};
    for (const char* text : lists) {
        const auto file = parse_solution_list(text, two_by_two());
        ASSERT_FALSE(file.ok()) << text;
        EXPECT_NE(file.error().message.find("expected"), std::string::npos);
    }
    EXPECT_FALSE(parse_highs_solution("", two_by_two()).ok());
    EXPECT_FALSE(parse_highs_solution("Model status\nOptimal\n# Primal solution values\nFeasible\n"
                                      "# Columns 2\nc0 1\n",
                                      two_by_two())
                     .ok());
    EXPECT_FALSE(parse_highs_solution("Model status\nOptimal\n# Primal solution values\nFeasible\n"
                                      "# Columns 2\nc0 1\nc1 x\n",
                                      two_by_two())
                     .ok());
}

}  // namespace
}  // namespace helix::plan::mip::mps_test
