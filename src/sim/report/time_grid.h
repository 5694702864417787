#pragma once

#include <cstddef>
#include <vector>

#include "base/time.h"

namespace helix::sim {

// Quantities over time in constant memory: rows of at most max_buckets buckets, all of one width.
// When time runs past the last bucket, neighbours are joined and the width doubles.
class TimeGrid {
  public:
    // What a bucket holds, and what becomes of two that are joined.
    enum class Fold { sum, highest };

    // max_buckets: even, at least 2.
    TimeGrid(Fold fold, std::size_t max_buckets, base::TimePoint origin);

    std::size_t add_row();  // its index
    std::size_t n_rows() const { return n_rows_; }

    // sum: amount, spread evenly over [begin, end); all at begin when that is empty.
    // highest: value held over [begin, end]. What lies before the origin is left out.
    void add(std::size_t row, base::TimePoint begin, base::TimePoint end, double amount);

    base::Duration width() const { return width_; }
    base::TimePoint begin_of(std::size_t bucket) const;
    // Buckets needed to reach end, at least 1; joins them if need be.
    std::size_t reach(base::TimePoint end);
    base::TimePoint furthest() const { return furthest_; }  // ever reached
    // A row's buckets up to end, divided by their seconds; the last one may be cut short.
    std::vector<double> per_second(std::size_t row, base::TimePoint end);
    double at(std::size_t row, std::size_t bucket) const {
        return cells_[row * max_buckets_ + bucket];
    }

  private:
    void join();
    double& cell(std::size_t row, std::size_t bucket) {
        return cells_[row * max_buckets_ + bucket];
    }

    Fold fold_;
    std::size_t max_buckets_;
    base::TimePoint origin_;
    base::TimePoint furthest_;
    base::Duration width_{10'000'000};
    std::size_t n_rows_ = 0;
    std::vector<double> cells_;
};

// A quantity that stays as it is until it is set again.
class StepValue {
  public:
    double value() const { return value_; }
    // Adds value x seconds since the last call to a row of grid.
    void set(base::TimePoint at, double value, TimeGrid& grid, std::size_t row);

  private:
    base::TimePoint since_;
    double value_ = 0;
};

}  // namespace helix::sim
