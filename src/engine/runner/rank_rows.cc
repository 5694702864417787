#include "engine/runner/rank_rows.h"

#include <cmath>
#include <numeric>
#include <string>

#include <fmt/format.h>

#include "base/index.h"
#include "engine/device/weight_loader.h"
#include "engine/runner/host_floats.h"

namespace helix::engine {

using base::size_of;

base::Result<std::vector<float>> load_rank_rows(model::WeightSource& weights,
                                                const model::RankHead& head, std::int64_t hidden) {
    const model::TensorInfo* info = weights.file().find_tensor(head.tensor);
    if (info == nullptr || info->row_length() != hidden) {
        return base::invalid(fmt::format("tensor {}: rows of {} expected", head.tensor, hidden));
    }
    TRY(const std::vector<float> factors, read_factors(weights, *info));
    TRY(const std::span<const std::byte> bytes, weights.tensor(head.tensor));
    const std::size_t row_bytes = bytes.size() / size_of(info->rows());
    std::vector<float> rows(head.rows.size() * size_of(hidden));
    for (std::size_t i = 0; i < head.rows.size(); ++i) {
        if (head.rows[i] >= info->rows()) {
            weights.release(head.tensor);
            return base::invalid(fmt::format("tensor {}: it has {} rows and none numbered {}",
                                             head.tensor, info->rows(), head.rows[i]));
        }
        model::dequantize_row(info->type,
                              bytes.subspan(size_of(head.rows[i]) * row_bytes, row_bytes),
                              rows.data() + i * size_of(hidden));
    }
    for (float& weight : rows) weight *= factors.empty() ? 1.0F : factors[0];
    return rows;
}

base::Result<std::vector<float>> load_whole_matrix(model::WeightSource& weights, const char* name,
                                                   std::int64_t rows, std::int64_t columns) {
    model::RankHead all;
    all.tensor = name;
    all.rows.resize(size_of(rows));
    std::iota(all.rows.begin(), all.rows.end(), 0);
    auto values = load_rank_rows(weights, all, columns);
    if (values.ok()) weights.release(name);
    return values;
}

base::Result<float> rank_score(std::span<const float> rows, std::span<const double> state) {
    const std::size_t width = state.size();
    double first = 0;
    double others = 0;  // of e^(logit - first's)
    for (std::size_t row = 0; row < rows.size(); row += width) {
        const double logit = add_products(0, rows.subspan(row, width), state);
        if (row == 0) {
            first = logit;
        } else {
            others += std::exp(logit - first);
        }
    }
    const auto score = static_cast<float>(1 / (1 + others));
    if (!std::isfinite(first) || std::isnan(score)) {
        return base::Error{base::Errc::internal,
                           fmt::format("the logit of the score is {}", first)};
    }
    return score;
}

}  // namespace helix::engine
