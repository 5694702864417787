#include <cmath>

#include "base/check.h"
#include "engine/ops/rope.h"

namespace helix::engine::ops {

RopeTable::RopeTable(const model::ModelConfig& config, Layers layers)
    : scale_(layers == Layers::usual ? static_cast<double>(config.rope_scale) : 1.0),
      magnitude_(layers == Layers::usual ? static_cast<double>(config.rope_magnitude) : 1.0) {
    if (layers == Layers::temperature) {
        temperature_length_ = static_cast<double>(config.temperature_length);
        temperature_scale_ = static_cast<double>(config.temperature_scale);
        pairs_.assign(static_cast<std::size_t>(config.head_dim / 2), {0.0, 1.0});
        return;
    }
    const bool windowed = layers == Layers::windowed;
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
    const double magnitude = magnitude_of(position);
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
        const double angle = scaled * pairs_[i].turn / pairs_[i].factor;
        to[2 * i] = static_cast<float>(magnitude * std::cos(angle));
        to[2 * i + 1] = static_cast<float>(magnitude * std::sin(angle));
    }
}

double RopeTable::magnitude_of(std::int32_t position) const {
    if (temperature_length_ == 0) return magnitude_;
    const double before = std::floor((static_cast<double>(position) + 1.0) / temperature_length_);
    return 1.0 + temperature_scale_ * std::log1p(before);
}

}  // namespace helix::engine::ops
