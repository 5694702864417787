#include "plan/mip/external_solver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "plan/mip/child_process.h"
#include "plan/mip/mps.h"

namespace helix::plan::mip {
namespace {

// The number after the last `label` in the log.
std::optional<double> number_after(const std::string& log, std::string_view label) {
    const std::size_t found = log.rfind(label);
    if (found == std::string::npos) return std::nullopt;
    const char* begin = log.c_str() + found + label.size();
    char* end = nullptr;
    const double value = std::strtod(begin, &end);
    if (end == begin) return std::nullopt;
    return value;
}

bool contains(const std::string& log, std::string_view text) {
    return log.find(text) != std::string::npos;
}

// The last lines of a log, for a message.
std::string tail(const std::string& log) {
    constexpr std::size_t kMost = 300;
    std::string text = log.size() > kMost ? log.substr(log.size() - kMost) : log;
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
}

// Solvers allow themselves 1e-6 for each row, relative to its largest term.
base::Status check_solution(const Program& program, std::vector<double>& values,
                            const char* solver) {
    constexpr double kTolerance = 1e-5;
    const auto outside = [](double value, double lower, double upper, double scale) {
        return !(value >= lower - kTolerance * scale && value <= upper + kTolerance * scale);
    };
    for (std::size_t c = 0; c < values.size(); ++c) {
        const Program::Column& column = program.columns[c];
        bool bad =
            outside(values[c], column.lower, column.upper, std::max(1.0, std::abs(values[c])));
        if (column.integer) {
            bad = bad || std::abs(values[c] - std::round(values[c])) > kTolerance;
            values[c] = std::round(values[c]);
        }
        if (bad) {
            return base::Error{base::Errc::internal,
                               fmt::format("{}: its solution has {} for column {} ({})", solver,
                                           values[c], c, column.name)};
        }
    }
    for (std::size_t r = 0; r < program.rows.size(); ++r) {
        const Program::Row& row = program.rows[r];
        double sum = 0;
        double scale = 1;
        for (const Program::Term& term : row.terms) {
            const double part = term.factor * values[static_cast<std::size_t>(term.column)];
            sum += part;
            scale = std::max({scale, std::abs(part), std::abs(term.factor)});
        }
        if (outside(sum, row.lower, row.upper, scale)) {
            return base::Error{
                base::Errc::internal,
                fmt::format("{}: its solution breaks row {} ({}): {} is not between {} and {}",
                            solver, r, row.name, sum, row.lower, row.upper)};
        }
    }
    return base::Ok{};
}

class ExternalSolver : public Solver {
  public:
    base::Result<Solution> solve(const Program& program, const SolveOptions& options) override {
        check_program(program, options);
        const auto executable = find_program(command());
        if (!executable) {
            return base::Error{base::Errc::not_found,
                               fmt::format("solver {}: there is no program {} on the PATH; "
                                           "install it or take the solver cbc",
                                           name(), command())};
        }
        TRY(const TemporaryFolder folder, TemporaryFolder::make());
        TRY_VOID(write_text(folder / "program.mps", to_mps(program)));
        TRY(const std::vector<std::string> arguments, prepare(program, options, folder));
        const double sign = program.maximise ? -1 : 1;
        const auto stop = [&] {
            return options.stop && options.stop(sign * kInfinity, -sign * kInfinity);
        };
        TRY(const ChildEnd end, run_program(*executable, arguments, folder, stop));
        Solution solution;
        solution.bound = -sign * kInfinity;
        TRY_VOID(read(program, folder, end, solution));
        solution.start_used = !options.start.empty() && took_start(end.output);
        if (solution.values.empty()) return solution;
        TRY_VOID(check_solution(program, solution.values, name()));
        solution.objective = objective_of(program, solution.values);
        for (double& dual : solution.row_duals) dual *= sign;
        if (solution.outcome == Outcome::optimal && options.relative_gap == 0) {
            solution.bound = solution.objective;
        } else if (const auto bound = told_bound(end.output)) {
            // A bound rounded in the log must not fall below what was reached.
            solution.bound = sign * std::min(*bound, sign * solution.objective);
        }
        return solution;
    }

  protected:
    virtual const char* command() const = 0;
    // Writes further files and returns the arguments.
    virtual base::Result<std::vector<std::string>> prepare(const Program& program,
                                                           const SolveOptions& options,
                                                           const TemporaryFolder& folder) = 0;
    // Outcome, values, duals (of the minimisation) and nodes.
    virtual base::Status read(const Program& program, const TemporaryFolder& folder,
                              const ChildEnd& end, Solution& solution) = 0;
    virtual bool took_start(const std::string& log) const = 0;
    // Of the minimisation.
    virtual std::optional<double> told_bound(const std::string& log) const = 0;

    base::Error no_answer(const ChildEnd& end) const {
        return {base::Errc::internal, fmt::format("{} ended with code {} and no solution: {}",
                                                  command(), end.exit_code, tail(end.output))};
    }
};

class HighsSolver : public ExternalSolver {
  public:
    const char* name() const override { return "highs"; }

  protected:
    const char* command() const override { return "highs"; }

    base::Result<std::vector<std::string>> prepare(const Program& program,
                                                   const SolveOptions& options,
                                                   const TemporaryFolder& folder) override {
        TRY_VOID(write_text(
            folder / "options",
            fmt::format("mip_rel_gap = {}\nmip_abs_gap = 1e-9\n", options.relative_gap)));
        std::vector<std::string> arguments = {"--options_file", folder / "options",
                                              "--solution_file", folder / "solution"};
        if (!options.start.empty()) {
            TRY_VOID(write_text(folder / "start", to_highs_solution(program, options.start)));
            arguments.insert(arguments.end(), {"--read_solution_file", folder / "start"});
        }
        arguments.push_back(folder / "program.mps");
        return arguments;
    }

    base::Status read(const Program& program, const TemporaryFolder& folder, const ChildEnd& end,
                      Solution& solution) override {
        const auto text = read_text(folder / "solution");
        if (!text) {
            if (!end.stopped) return no_answer(end);
            solution.outcome = Outcome::stopped;
            return base::Ok{};
        }
        TRY(SolutionFile file, parse_highs_solution(*text, program));
        solution.nodes =
            static_cast<std::int64_t>(number_after(end.output, "\n  Nodes").value_or(0));
        if (file.status == "Infeasible") {
            solution.outcome = Outcome::infeasible;
        } else if (file.status == "Unbounded" || file.status == "Primal infeasible or unbounded") {
            solution.outcome = Outcome::unbounded;
        } else if (file.values.empty()) {
            if (!end.stopped) {
                return base::Error{base::Errc::internal,
                                   "highs ended without a solution: " + file.status};
            }
            solution.outcome = Outcome::stopped;
        } else {
            solution.outcome = file.status == "Optimal" ? Outcome::optimal : Outcome::feasible;
            solution.values = std::move(file.values);
            solution.row_duals = std::move(file.row_duals);
        }
        return base::Ok{};
    }

    bool took_start(const std::string& log) const override {
        return contains(log, "MIP start solution is feasible");
    }
    std::optional<double> told_bound(const std::string& log) const override {
        return number_after(log, "Dual bound");
    }
};

class GurobiSolver : public ExternalSolver {
  public:
    const char* name() const override { return "gurobi"; }

  protected:
    const char* command() const override { return "gurobi_cl"; }

    base::Result<std::vector<std::string>> prepare(const Program&, const SolveOptions& options,
                                                   const TemporaryFolder& folder) override {
        std::vector<std::string> arguments = {fmt::format("MIPGap={}", options.relative_gap),
                                              "MIPGapAbs=1e-9", "ResultFile=" + folder / "out.sol"};
        if (!options.start.empty()) {
            TRY_VOID(write_text(folder / "start.mst", to_start_list(options.start)));
            arguments.push_back("InputFile=" + folder / "start.mst");
        }
        arguments.push_back(folder / "program.mps");
        return arguments;
    }

    base::Status read(const Program& program, const TemporaryFolder& folder, const ChildEnd& end,
                      Solution& solution) override {
        solution.nodes =
            static_cast<std::int64_t>(number_after(end.output, "Explored").value_or(0));
        const auto text = read_text(folder / "out.sol");
        SolutionFile file;
        if (text) {
            TRY(file, parse_solution_list(*text, program));
        }
        if (!file.values.empty()) {
            const bool proven = contains(end.output, "Optimal solution found") ||
                                contains(end.output, "Optimal objective");
            solution.outcome = proven ? Outcome::optimal : Outcome::feasible;
            solution.values = std::move(file.values);
        } else if (contains(end.output, "Model is infeasible or unbounded") ||
                   contains(end.output, "Model is unbounded")) {
            solution.outcome = Outcome::unbounded;
        } else if (contains(end.output, "Model is infeasible") ||
                   contains(end.output, "Infeasible model")) {
            solution.outcome = Outcome::infeasible;
        } else if (contains(end.output, "Unbounded model")) {
            solution.outcome = Outcome::unbounded;
        } else if (!end.stopped) {
            return no_answer(end);
        } else {
            solution.outcome = Outcome::stopped;
        }
        return base::Ok{};
    }

    bool took_start(const std::string& log) const override {
        return contains(log, "Loaded user MIP start with objective") ||
               contains(log, "User MIP start produced solution with objective");
    }
    std::optional<double> told_bound(const std::string& log) const override {
        return number_after(log, "best bound");
    }
};

}  // namespace

std::unique_ptr<Solver> make_highs_solver() {
    return std::make_unique<HighsSolver>();
}

std::unique_ptr<Solver> make_gurobi_solver() {
    return std::make_unique<GurobiSolver>();
}

}  // namespace helix::plan::mip
