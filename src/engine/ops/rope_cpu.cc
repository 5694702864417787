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
        table[2 * i] = static_cast<float>(std::cos(angle));
        table[2 * i + 1] = static_cast<float>(std::sin(angle));
    }
}

void rope_row(std::span<const float> table, int n_heads, int head_dim, float* x) {
    for (int head = 0; head < n_heads; ++head, x += head_dim) {
        for (std::size_t i = 0; i < table.size(); i += 2) {
            const float a = x[i];
            const float b = x[i + 1];
            x[i] = a * table[i] - b * table[i + 1];
            x[i + 1] = a * table[i + 1] + b * table[i];
        }
    }
}

}  // namespace helix::engine::ops
