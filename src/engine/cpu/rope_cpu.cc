#include <cmath>

#include "base/check.h"
#include "engine/ops/rope.h"

namespace helix::engine::ops {

void rope_table(const model::ModelConfig& config, std::int32_t position, std::span<float> table) {
    CHECK(table.size() == static_cast<std::size_t>(config.rope_dim));
    const double scaled = static_cast<double>(position) * static_cast<double>(config.rope_scale);
    for (std::size_t i = 0; 2 * i < table.size(); ++i) {
        const double exponent =
            -2.0 * static_cast<double>(i) / static_cast<double>(config.rope_dim);
        double angle = scaled * std::pow(static_cast<double>(config.rope_base), exponent);
        if (!config.rope_factors.empty()) angle /= static_cast<double>(config.rope_factors[i]);
        const auto magnitude = static_cast<double>(config.rope_magnitude);
        table[2 * i] = static_cast<float>(magnitude * std::cos(angle));
        table[2 * i + 1] = static_cast<float>(magnitude * std::sin(angle));
    }
}

void rope_row(std::span<const float> table, model::RopePairs pairs, int n_heads, int head_dim,
              float* x) {
    const std::size_t n = table.size() / 2;
    const bool adjacent = pairs == model::RopePairs::adjacent;
    const std::size_t step = adjacent ? 2 : 1;
    const std::size_t apart = adjacent ? 1 : n;
    for (int head = 0; head < n_heads; ++head, x += head_dim) {
        for (std::size_t i = 0; i < n; ++i) {
            const float cosine = table[2 * i];
            const float sine = table[2 * i + 1];
            const float a = x[i * step];
            const float b = x[i * step + apart];
            x[i * step] = a * cosine - b * sine;
            x[i * step + apart] = a * sine + b * cosine;
        }
    }
}

}  // namespace helix::engine::ops
