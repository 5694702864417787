#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace helix::spec {

// A small comma-separated file with a header line; no quoting. Errors name file and line.
class CsvTable {
  public:
    // columns are the names that the header must have, in any order; get() takes a position in
    // columns.
    static base::Result<CsvTable> read(const std::string& path,
                                       const std::vector<std::string>& columns);
    static base::Result<CsvTable> parse(std::string_view text, const std::string& file,
                                        const std::vector<std::string>& columns);

    std::size_t n_rows() const { return cells_.size() / n_columns_; }
    const std::string& text(std::size_t row, std::size_t column) const {
        return cells_[row * n_columns_ + column];
    }
    base::Result<double> number(std::size_t row, std::size_t column) const;  // finite, not negative
    // "FILE:LINE: text".
    base::Error complaint(std::size_t row, std::string_view text) const;

  private:
    std::string file_;
    std::size_t n_columns_ = 0;
    std::vector<std::string> columns_;
    std::vector<std::string> cells_;
    std::vector<std::size_t> lines_;  // of each row in the file
};

}  // namespace helix::spec
