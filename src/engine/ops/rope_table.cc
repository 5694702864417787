#include <cmath>

#include "base/check.h"
#include "engine/ops/rope.h"

namespace helix::engine::ops {

RopeTable::RopeTable(const model::ModelConfig& config, bool windowed)
    : scale_(windowed ? 1.0 : static_cast<double>(config.rope_scale)),
      magnitude_(windowed ? 1.0 : static_cast<double>(config.rope_magnitude)) {
    const bool own_heads = windowed && config.windowed_head_dim > 0;
    const std::int32_t rope_dim = own_heads ? config.windowed_rope_dim : config.rope_dim;
    const auto dim = static_cast<double>(rope_dim);
    const auto base = static_cast<double>(windowed ? config.windowed_rope_base : config.rope_base);
    const bool plain = windowed || config.rope_factors.empty();
    for (std::int32_t i = 0; 2 * i < rope_dim; ++i) {
        const double exponent = -2.0 * static_cast<double>(i) / dim;
        const double turn = std::pow(base, exponent);
        const auto at = static_cast<std::size_t>(i);
        const float factor = plain ? 1.0F : config.rope_factors[at];
        pairs_.push_back({turn, static_cast<double>(factor)});
    }
}

void RopeTable::fill(std::int32_t position, std::span<float> to) const {
    CHECK(to.size() == 2 * pairs_.size());
    const double scaled = static_cast<double>(position) * scale_;
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
        const double angle = scaled * pairs_[i].turn / pairs_[i].factor;
        to[2 * i] = static_cast<float>(magnitude_ * std::cos(angle));
        to[2 * i + 1] = static_cast<float>(magnitude_ * std::sin(angle));
    }
}

}  // namespace helix::engine::ops
