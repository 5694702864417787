#pragma once

#include <optional>

namespace helix::core {

// seconds = fixed + per_row * rows, both not negative.
struct CostLine {
    double fixed_s = 0;
    double per_row_s = 0;
};

// A line through what was measured lately: least squares, older points weigh less with every new
// one.
class CostFit {
  public:
    void add(double rows, double seconds);
    // Without enough points of different size there is none.
    std::optional<CostLine> line() const;
    double mean_s() const { return weight_ > 0 ? sum_s_ / weight_ : 0; }

  private:
    double weight_ = 0;
    double sum_rows_ = 0;
    double sum_s_ = 0;
    double sum_rows_rows_ = 0;
    double sum_rows_s_ = 0;
};

// What this worker's batches have cost: those of decodes only and those of prompt rows only. Rows
// count as the share of the worker's layers that they ran.
struct BatchCosts {
    CostFit decodes;
    CostFit prefills;

    void add(double decode_rows, double prefill_rows, double seconds);
};

}  // namespace helix::core
