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

}  // namespace helix::engine::ops
