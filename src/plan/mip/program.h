#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace helix::plan::mip {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A linear or mixed-integer program: maximise (or minimise) the cost of the columns subject to
// lower <= row <= upper. Names are for MPS files and messages; they need not be unique.
struct Program {
    struct Column {
        std::string name;
        double lower = 0;
        double upper = kInfinity;
        double cost = 0;
        bool integer = false;
        std::int32_t priority = 0;  // branch on those of lower value first; a hint
    };
    struct Term {
        std::int32_t column = 0;
        double factor = 0;
    };
    struct Row {
        std::string name;
        double lower = -kInfinity;
        double upper = kInfinity;
        std::vector<Term> terms;  // each column at most once
    };

    bool maximise = true;
    std::vector<Column> columns;
    std::vector<Row> rows;
};

}  // namespace helix::plan::mip
