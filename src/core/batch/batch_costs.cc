#include "core/batch/batch_costs.h"

#include <algorithm>
#include <cmath>

namespace helix::core {
namespace {

constexpr double kKeep = 0.98;       // a point keeps this share of its weight with every later one
constexpr double kMinWeight = 4;     // weight of points before a fixed cost is told from the rest
constexpr double kMinSpread = 0.01;  // variance of the sizes over their squared mean
constexpr double kAlikeSizes = 0.1;  // sizes this near to the mean are taken to cost the same
constexpr std::int32_t kMinShared = 4;      // mixed batches before the saving is known
constexpr std::int32_t kSharedMemory = 16;  // the latest mixed batches that count

}  // namespace

void CostFit::add(double rows, double seconds) {
    weight_ = kKeep * weight_ + 1;
    sum_rows_ = kKeep * sum_rows_ + rows;
    sum_s_ = kKeep * sum_s_ + seconds;
    sum_rows_rows_ = kKeep * sum_rows_rows_ + rows * rows;
    sum_rows_s_ = kKeep * sum_rows_s_ + rows * seconds;
}

std::optional<CostLine> CostFit::line() const {
    if (sum_s_ <= 0 || sum_rows_ <= 0) return std::nullopt;
    return fit().value_or(CostLine{0, sum_s_ / sum_rows_});
}

std::optional<double> CostFit::fixed_s() const {
    const auto known = fit();
    return known ? std::optional(known->fixed_s) : std::nullopt;
}

std::optional<double> CostFit::at(double rows) const {
    if (weight_ <= 0 || rows * rows > 4 * sum_rows_rows_ / weight_) return std::nullopt;
    if (const auto known = fit()) return known->at(rows);
    const double mean_rows = sum_rows_ / weight_;
    if (std::abs(rows - mean_rows) > kAlikeSizes * mean_rows) return std::nullopt;
    return mean_s();
}

std::optional<CostLine> CostFit::fit() const {
    if (weight_ < kMinWeight) return std::nullopt;
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
    if (prefill_rows <= 0) {
        if (decode_rows > 0) decodes_.add(decode_rows, seconds);
        return;
    }
    if (decode_rows <= 0) {
        prefills_.add(prefill_rows, seconds);
        return;
    }
    const auto decodes_s = decodes_.at(decode_rows);
    const auto prefills_s = prefills_.at(prefill_rows);
    if (!decodes_s || !prefills_s || *decodes_s <= 0) return;
    const double saved = std::clamp((*decodes_s + *prefills_s - seconds) / *decodes_s, -1.0, 1.0);
    n_shared_ = std::min(n_shared_ + 1, kSharedMemory);
    saved_ += (saved - saved_) / n_shared_;
}

std::optional<double> BatchCosts::saved_by_sharing() const {
    if (n_shared_ < kMinShared) return std::nullopt;
    return saved_;
}

}  // namespace helix::core
