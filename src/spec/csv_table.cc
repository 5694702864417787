#include "spec/csv_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "spec/text_file.h"

namespace helix::spec {
namespace {

std::vector<std::string> split(std::string_view line) {
    std::vector<std::string> cells;
    while (true) {
        const std::size_t comma = line.find(',');
        cells.emplace_back(line.substr(0, comma));
        if (comma == std::string_view::npos) return cells;
        line.remove_prefix(comma + 1);
    }
}

}  // namespace

base::Result<CsvTable> CsvTable::read(const std::string& path,
                                      const std::vector<std::string>& columns) {
    TRY(const std::string text, read_text_file(path));
    return parse(text, path, columns);
}

base::Result<CsvTable> CsvTable::parse(std::string_view text, const std::string& file,
                                       const std::vector<std::string>& columns) {
    CsvTable table;
    table.file_ = file;
    table.n_columns_ = columns.size();
    table.columns_ = columns;
    std::vector<std::size_t> position;
    std::size_t width = 0;
    for (std::size_t number = 1; !text.empty(); ++number) {
        const std::size_t newline = text.find('\n');
        std::string_view line = text.substr(0, newline);
        text.remove_prefix(newline == std::string_view::npos ? text.size() : newline + 1);
        if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
        if (line.empty()) continue;
        const std::vector<std::string> cells = split(line);
        if (position.empty()) {
            width = cells.size();
            for (const std::string& name : columns) {
                const auto found = std::find(cells.begin(), cells.end(), name);
                if (found == cells.end()) {
                    return base::invalid(
                        fmt::format("{}:{}: the header has no column \"{}\"", file, number, name));
                }
                position.push_back(static_cast<std::size_t>(found - cells.begin()));
            }
            continue;
        }
        if (cells.size() != width) {
            return base::invalid(fmt::format("{}:{}: expected {} columns, found {}", file, number,
                                             width, cells.size()));
        }
        for (const std::size_t p : position) table.cells_.push_back(cells[p]);
        table.lines_.push_back(number);
    }
    if (position.empty()) return base::invalid(file + ": is empty, expected a header line");
    return table;
}

base::Result<double> CsvTable::number(std::size_t row, std::size_t column) const {
    const std::string& cell = text(row, column);
    double value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc{} || end != cell.data() + cell.size() || !std::isfinite(value) ||
        value < 0) {
        return complaint(row, fmt::format("column {}: expected a number not below 0, found \"{}\"",
                                          columns_[column], cell));
    }
    return value;
}

base::Error CsvTable::complaint(std::size_t row, std::string_view text) const {
    return base::invalid(fmt::format("{}:{}: {}", file_, lines_[row], text));
}

}  // namespace helix::spec
