#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/random.h"
#include "plan/mip/program.h"

// Small programs and their optimum by enumeration, for the tests of the solvers.

namespace helix::plan::mip {

// Small whole factors; every column in a box, so that nothing is unbounded. Rows may contradict.
inline Program random_program(base::Random& random, int n_integer, int n_continuous, int n_rows) {
    Program program;
    program.maximise = random.chance(0.5);
    for (int c = 0; c < n_integer + n_continuous; ++c) {
        Program::Column column;
        column.lower = static_cast<double>(random.between(-2, 1));
        column.upper = column.lower + static_cast<double>(random.between(0, 3));
        column.cost = static_cast<double>(random.between(-5, 5));
        column.integer = c < n_integer;
        program.columns.push_back(column);
    }
    for (int r = 0; r < n_rows; ++r) {
        Program::Row row;
        for (int c = 0; c < n_integer + n_continuous; ++c) {
            const auto factor = static_cast<double>(random.between(-3, 3));
            if (factor != 0) row.terms.push_back({c, factor});
        }
        const auto middle = static_cast<double>(random.between(-4, 6));
        const auto kind = random.below(4);
        if (kind != 0) row.upper = middle;
        if (kind == 0) row.lower = middle;
        if (kind == 2) row.lower = middle - static_cast<double>(random.between(0, 4));
        program.rows.push_back(std::move(row));
    }
    return program;
}

inline double row_value(const Program::Row& row, const std::vector<double>& values) {
    double sum = 0;
    for (const Program::Term& term : row.terms) {
        sum += term.factor * values[static_cast<std::size_t>(term.column)];
    }
    return sum;
}

inline bool feasible(const Program& program, const std::vector<double>& values,
                     double tolerance = 1e-6) {
    for (std::size_t c = 0; c < values.size(); ++c) {
        const Program::Column& column = program.columns[c];
        if (values[c] < column.lower - tolerance || values[c] > column.upper + tolerance)
            return false;
        if (column.integer && values[c] != std::round(values[c])) return false;
    }
    for (const Program::Row& row : program.rows) {
        const double value = row_value(row, values);
        if (value < row.lower - tolerance || value > row.upper + tolerance) return false;
    }
    return true;
}

// All corners: each choice of as many tight sides as there are columns. Columns with one value
// (integers, once fixed) need no choice.
class Enumeration {
  public:
    explicit Enumeration(const Program& program) : program_(program) {}

    std::optional<double> best() {
        fix_integers(0, program_);
        return best_;
    }

  private:
    struct Side {
        std::vector<double> factors;
        double value = 0;
    };

    void fix_integers(std::size_t c, Program program) {
        if (c == program.columns.size()) return corners(program);
        if (!program.columns[c].integer) return fix_integers(c + 1, std::move(program));
        const double lower = program.columns[c].lower;
        const double upper = program.columns[c].upper;
        for (double value = lower; value <= upper; ++value) {
            program.columns[c].lower = program.columns[c].upper = value;
            fix_integers(c + 1, program);
        }
    }

    void corners(const Program& program) {
        sides_.clear();
        const std::size_t n = program.columns.size();
        std::vector<Side> chosen;
        for (std::size_t c = 0; c < n; ++c) {
            const Program::Column& column = program.columns[c];
            Side side;
            side.factors.assign(n, 0.0);
            side.factors[c] = 1;
            side.value = column.lower;
            (column.lower == column.upper ? chosen : sides_).push_back(side);
            side.value = column.upper;
            if (column.lower != column.upper) sides_.push_back(side);
        }
        for (const Program::Row& row : program.rows) {
            Side side;
            side.factors.assign(n, 0.0);
            for (const Program::Term& term : row.terms) {
                side.factors[static_cast<std::size_t>(term.column)] = term.factor;
            }
            for (const double value : {row.lower, row.upper}) {
                side.value = value;
                if (std::isfinite(value)) sides_.push_back(side);
            }
        }
        choose(program, chosen, 0);
    }

    void choose(const Program& program, std::vector<Side>& chosen, std::size_t next) {
        if (chosen.size() == program.columns.size()) return corner(program, chosen);
        for (std::size_t s = next; s < sides_.size(); ++s) {
            chosen.push_back(sides_[s]);
            choose(program, chosen, s + 1);
            chosen.pop_back();
        }
    }

    void corner(const Program& program, std::vector<Side> rows) {
        const std::size_t n = rows.size();
        for (std::size_t c = 0; c < n; ++c) {
            std::size_t pivot = c;
            for (std::size_t r = c; r < n; ++r) {
                if (std::abs(rows[r].factors[c]) > std::abs(rows[pivot].factors[c])) pivot = r;
            }
            if (std::abs(rows[pivot].factors[c]) < 1e-9) return;
            std::swap(rows[c], rows[pivot]);
            for (std::size_t r = 0; r < n; ++r) {
                if (r == c) continue;
                const double share = rows[r].factors[c] / rows[c].factors[c];
                for (std::size_t k = 0; k < n; ++k)
                    rows[r].factors[k] -= share * rows[c].factors[k];
                rows[r].value -= share * rows[c].value;
            }
        }
        std::vector<double> values;
        double cost = 0;
        for (std::size_t c = 0; c < n; ++c) {
            values.push_back(rows[c].value / rows[c].factors[c]);
            if (program.columns[c].integer) values[c] = std::round(values[c]);
            cost += program.columns[c].cost * values[c];
        }
        if (!feasible(program, values, 1e-7)) return;
        if (!best_ || (program.maximise ? cost > *best_ : cost < *best_)) best_ = cost;
    }

    const Program& program_;
    std::vector<Side> sides_;
    std::optional<double> best_;
};

}  // namespace helix::plan::mip
