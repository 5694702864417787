#include "plan/mip/mps.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "base/check.h"

namespace helix::plan::mip {
namespace {

using Text = fmt::memory_buffer;

template <typename... Args>
void append(Text& text, fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
}

// One row of the file; `suffix` tells the halves of a split row apart.
struct FileRow {
    std::size_t row = 0;
    const char* suffix = "";
    char kind = 'L';  // L, G or E, with the right-hand side
    double right = 0;
    double range = 0;  // 0 = none
};

std::vector<FileRow> file_rows(const Program& program) {
    std::vector<FileRow> rows;
    for (std::size_t r = 0; r < program.rows.size(); ++r) {
        const Program::Row& row = program.rows[r];
        const bool lower = std::isfinite(row.lower);
        const bool upper = std::isfinite(row.upper);
        const double range = row.upper - row.lower;
        if (lower && upper && row.lower == row.upper) {
            rows.push_back({r, "", 'E', row.upper, 0});
        } else if (lower && upper && row.upper - range == row.lower) {
            rows.push_back({r, "", 'L', row.upper, range});
        } else {
            if (lower) rows.push_back({r, "", 'G', row.lower, 0});
            if (upper) rows.push_back({r, lower ? "u" : "", 'L', row.upper, 0});
        }
    }
    return rows;
}

void append_columns(Text& text, const Program& program, const std::vector<FileRow>& rows) {
    std::vector<std::vector<std::pair<std::size_t, double>>> entries(program.columns.size());
    for (std::size_t k = 0; k < rows.size(); ++k) {
        for (const Program::Term& term : program.rows[rows[k].row].terms) {
            entries[static_cast<std::size_t>(term.column)].emplace_back(k, term.factor);
        }
    }
    bool integer = false;
    int markers = 0;
    const auto mark = [&](bool begins) {
        append(text, " M{} 'MARKER' '{}'\n", markers++, begins ? "INTORG" : "INTEND");
        integer = begins;
    };
    for (std::size_t c = 0; c < program.columns.size(); ++c) {
        const Program::Column& column = program.columns[c];
        if (column.integer != integer) mark(column.integer);
        // A column that stands in no row is known by its cost, even if that is 0.
        append(text, " c{} cost {}\n", c,
               program.maximise && column.cost != 0 ? -column.cost : column.cost);
        for (const auto& [k, factor] : entries[c]) {
            append(text, " c{} r{}{} {}\n", c, rows[k].row, rows[k].suffix, factor);
        }
    }
    if (integer) mark(false);
}

// Both bounds of integer columns are spelt out: readers differ in what they assume.
void append_bounds(Text& text, const Program& program) {
    for (std::size_t c = 0; c < program.columns.size(); ++c) {
        const Program::Column& column = program.columns[c];
        const bool lower = std::isfinite(column.lower);
        const bool upper = std::isfinite(column.upper);
        if (lower && column.lower == column.upper) {
            append(text, " FX BOUND c{} {}\n", c, column.lower);
            continue;
        }
        if (!lower && !upper) {
            append(text, " FR BOUND c{}\n", c);
            continue;
        }
        if (!lower) append(text, " MI BOUND c{}\n", c);
        if (lower && (column.lower != 0 || upper || column.integer)) {
            append(text, " LO BOUND c{} {}\n", c, column.lower);
        }
        if (upper) append(text, " UP BOUND c{} {}\n", c, column.upper);
        if (!upper && column.integer) append(text, " PL BOUND c{}\n", c);
    }
}

std::string_view next_line(std::string_view& text) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    return line;
}

// "c12 3.5" with the given letter; nothing if it reads otherwise.
std::optional<std::pair<std::size_t, double>> parse_entry(std::string_view line, char letter) {
    while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
    if (line.empty() || line.front() != letter) return std::nullopt;
    const char* end = line.data() + line.size();
    std::size_t index = 0;
    auto read = std::from_chars(line.data() + 1, end, index);
    if (read.ec != std::errc() || read.ptr == end) return std::nullopt;
    if (letter == 'r' && *read.ptr == 'u') ++read.ptr;  // the upper half of a split row
    while (read.ptr != end && (*read.ptr == ' ' || *read.ptr == '\t')) ++read.ptr;
    double value = 0;
    const auto number = std::from_chars(read.ptr, end, value);
    if (number.ec != std::errc() || number.ptr != end) return std::nullopt;
    return std::pair{index, value};
}

base::Error bad_line(std::string_view line, char letter, std::size_t count) {
    return base::invalid(
        fmt::format("solution file: \"{}\" where a name from {}0 to {}{} and a value "
                    "were expected",
                    line, letter, letter, count - 1));
}

base::Status add(std::vector<double>& values, std::string_view line, char letter) {
    const auto entry = parse_entry(line, letter);
    if (!entry || entry->first >= values.size()) return bad_line(line, letter, values.size());
    values[entry->first] += entry->second;
    return base::Ok{};
}

// The lines up to the next empty one or comment. Every column is there; rows may be missing (free
// ones are) or split in two, whose duals add up.
base::Result<std::vector<double>> read_section(std::string_view& text, char letter,
                                               std::size_t count) {
    std::vector<double> values(count);
    std::size_t lines = 0;
    while (!text.empty() && text.front() != '#' && text.front() != '\n') {
        TRY_VOID(add(values, next_line(text), letter));
        ++lines;
    }
    if (letter == 'c' && lines != count) {
        return base::invalid(
            fmt::format("solution file: {} columns where {} were expected", lines, count));
    }
    return values;
}

}  // namespace

std::string to_mps(const Program& program) {
    const std::vector<FileRow> rows = file_rows(program);
    Text text;
    append(text, "NAME helix FREE\nROWS\n N cost\n");
    for (const FileRow& row : rows) append(text, " {} r{}{}\n", row.kind, row.row, row.suffix);
    append(text, "COLUMNS\n");
    append_columns(text, program, rows);
    append(text, "RHS\n");
    for (const FileRow& row : rows) {
        if (row.right != 0) append(text, " RHS r{}{} {}\n", row.row, row.suffix, row.right);
    }
    bool ranges = false;
    for (const FileRow& row : rows) {
        if (row.range == 0) continue;
        if (!ranges) append(text, "RANGES\n");
        ranges = true;
        append(text, " RANGE r{}{} {}\n", row.row, row.suffix, row.range);
    }
    append(text, "BOUNDS\n");
    append_bounds(text, program);
    append(text, "ENDATA\n");
    return fmt::to_string(text);
}

std::string to_start_list(const std::vector<double>& values) {
    Text text;
    for (std::size_t c = 0; c < values.size(); ++c) append(text, "c{} {}\n", c, values[c]);
    return fmt::to_string(text);
}

std::string to_highs_solution(const Program& program, const std::vector<double>& values) {
    const auto value = [&](std::int32_t c) { return values[static_cast<std::size_t>(c)]; };
    double objective = 0;
    for (std::size_t c = 0; c < values.size(); ++c)
        objective += program.columns[c].cost * values[c];
    Text text;
    append(text, "Model status\nUnknown\n\n# Primal solution values\nFeasible\nObjective {}\n",
           program.maximise ? -objective : objective);
    append(text, "# Columns {}\n{}", values.size(), to_start_list(values));
    const std::vector<FileRow> rows = file_rows(program);
    append(text, "# Rows {}\n", rows.size());
    for (const FileRow& row : rows) {
        double sum = 0;
        for (const Program::Term& term : program.rows[row.row].terms) {
            sum += term.factor * value(term.column);
        }
        append(text, "r{}{} {}\n", row.row, row.suffix, sum);
    }
    return fmt::to_string(text);
}

base::Result<SolutionFile> parse_highs_solution(std::string_view text, const Program& program) {
    SolutionFile file;
    bool dual = false;
    bool valid = false;
    while (!text.empty()) {
        const std::string_view line = next_line(text);
        if (line == "Model status") {
            file.status = next_line(text);
        } else if (line == "# Primal solution values" || line == "# Dual solution values") {
            dual = line == "# Dual solution values";
            valid = next_line(text) == "Feasible";
        } else if (valid && line.starts_with("# Columns")) {
            TRY(auto values, read_section(text, 'c', program.columns.size()));
            if (!dual) file.values = std::move(values);
        } else if (valid && line.starts_with("# Rows")) {
            TRY(auto values, read_section(text, 'r', program.rows.size()));
            if (dual) file.row_duals = std::move(values);
        }
    }
    if (file.status.empty()) return base::invalid("solution file: no \"Model status\"");
    return file;
}

base::Result<SolutionFile> parse_solution_list(std::string_view text, const Program& program) {
    SolutionFile file;
    std::vector<double> values(program.columns.size());
    bool any = false;
    while (!text.empty()) {
        const std::string_view line = next_line(text);
        if (line.empty() || line.front() == '#') continue;
        TRY_VOID(add(values, line, 'c'));
        any = true;
    }
    if (any) file.values = std::move(values);
    return file;
}

}  // namespace helix::plan::mip
