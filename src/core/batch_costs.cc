#include "core/batch_costs.h"

#include <algorithm>

namespace helix::core {
namespace {

constexpr double kKeep = 0.98;       // of a point's weight, with every point after it
constexpr double kMinWeight = 4;     // points before a line is drawn
constexpr double kMinSpread = 0.01;  // variance of the sizes over their squared mean

}  // namespace

void CostFit::add(double rows, double seconds) {
    weight_ = kKeep * weight_ + 1;
    sum_rows_ = kKeep * sum_rows_ + rows;
    sum_s_ = kKeep * sum_s_ + seconds;
    sum_rows_rows_ = kKeep * sum_rows_rows_ + rows * rows;
    sum_rows_s_ = kKeep * sum_rows_s_ + rows * seconds;
}

std::optional<CostLine> CostFit::line() const {
    if (weight_ < kMinWeight || sum_s_ <= 0) return std::nullopt;
    const double mean_rows = sum_rows_ / weight_;
    const double variance = sum_rows_rows_ / weight_ - mean_rows * mean_rows;
    if (variance < kMinSpread * mean_rows * mean_rows) return std::nullopt;
    const double covariance = sum_rows_s_ / weight_ - mean_rows * mean_s();
    CostLine line;
    line.per_row_s = std::max(0.0, covariance / variance);
    line.fixed_s = mean_s() - line.per_row_s * mean_rows;
    if (line.fixed_s < 0) line = {0, sum_rows_s_ / sum_rows_rows_};
    return line;
}

void BatchCosts::add(double decode_rows, double prefill_rows, double seconds) {
    if (prefill_rows <= 0 && decode_rows > 0) decodes.add(decode_rows, seconds);
    if (decode_rows <= 0 && prefill_rows > 0) prefills.add(prefill_rows, seconds);
}

}  // namespace helix::core
