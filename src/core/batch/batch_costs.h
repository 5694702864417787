#pragma once

#include <cstdint>
#include <optional>

namespace helix::core {

// CostLine is what a batch takes: seconds = fixed + per_row * rows; neither is negative.
struct CostLine {
    double fixed_s = 0;
    double per_row_s = 0;
    double at(double rows) const { return fixed_s + per_row_s * rows; }
};

// CostFit is a line fitted to recent measurements by least squares; older points weigh less with
// every new one.
class CostFit {
  public:
    void add(double rows, double seconds);
    // Returns the fitted line, or none without points. It goes through the origin while all points
    // have about the same size.
    std::optional<CostLine> line() const;
    // Returns the line's fixed cost, or none while the points cannot tell it from the cost per row.
    std::optional<double> fixed_s() const;
    // Returns the seconds that a batch of this many rows takes, or none if nothing like it was
    // measured.
    std::optional<double> at(double rows) const;
    double mean_s() const { return weight_ > 0 ? sum_s_ / weight_ : 0; }

  private:
    std::optional<CostLine> fit() const;  // none without enough points of different size

    double weight_ = 0;
    double sum_rows_ = 0;
    double sum_s_ = 0;
    double sum_rows_rows_ = 0;
    double sum_rows_s_ = 0;
};

// BatchCosts is what this worker's batches have cost. A row counts as the share of the worker's
// layers that it ran.
class BatchCosts {
  public:
    void add(double decode_rows, double prefill_rows, double seconds);

    const CostFit& decodes() const { return decodes_; }    // batches of decodes only
    const CostFit& prefills() const { return prefills_; }  // batches of prompt rows only
    // Returns what one batch of decodes and prompt rows saves against two batches, as a share of
    // the time of the decodes' batch. An engine that reads its weights once per batch saves most of
    // it. There is none before it is known.
    std::optional<double> saved_by_sharing() const;

  private:
    CostFit decodes_;
    CostFit prefills_;
    double saved_ = 0;
    std::int32_t n_shared_ = 0;
};

}  // namespace helix::core
