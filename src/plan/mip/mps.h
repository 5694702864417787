#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/mip/program.h"

// What programs of others read and write. Columns are called c0, c1, ..., rows r0, r1, ...:
// unique, and short in every dialect.

namespace helix::plan::mip {

// Free MPS. Always a minimisation (costs negated where the program maximises), because not every
// reader knows OBJSENSE; FREE after the name, because COIN's reader guesses otherwise. Numbers are
// the shortest that read back as the same double. Rows without bounds are left out; one whose range
// is not a double's difference stands as two (r7 and r7u).
std::string to_mps(const Program& program);

// A starting point as Gurobi takes it (.mst): "c0 1" a line.
std::string to_start_list(const std::vector<double>& values);

// The same for HiGHS, in the format of its solution files.
std::string to_highs_solution(const Program& program, const std::vector<double>& values);

// What a solver wrote about a program of to_mps, in the sense of that file (minimising).
struct SolutionFile {
    std::string status;             // HiGHS: the line after "Model status"; else empty
    std::vector<double> values;     // by column; empty if there is no solution
    std::vector<double> row_duals;  // by row; empty if the file has none
};

// HiGHS' --solution_file (style 0): sections "# Columns n" of names and values, primal and dual.
base::Result<SolutionFile> parse_highs_solution(std::string_view text, const Program& program);

// Gurobi's .sol: comment lines with '#', then a name and a value a line.
base::Result<SolutionFile> parse_solution_list(std::string_view text, const Program& program);

}  // namespace helix::plan::mip
