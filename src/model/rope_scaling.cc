#include "model/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace helix::model {

std::vector<float> llama3_rope_factors(const Llama3RopeScaling& scaling) {
    const double low = static_cast<double>(scaling.low_frequency_factor);
    const double high = static_cast<double>(scaling.high_frequency_factor);
    const double factor = static_cast<double>(scaling.factor);
    std::vector<float> factors;
    for (std::int32_t i = 0; i < scaling.rope_dim / 2; ++i) {
        const double wavelength =
            2 * std::numbers::pi *
            std::pow(static_cast<double>(scaling.rope_base), 2.0 * i / scaling.rope_dim);
        const double turns = scaling.trained_context / wavelength;  // in the trained context
        if (turns >= high) {
            factors.push_back(1.0F);
        } else if (turns < low) {
            factors.push_back(scaling.factor);
        } else {
            const double kept = (turns - low) / (high - low);
            factors.push_back(static_cast<float>(1.0 / ((1.0 - kept) / factor + kept)));
        }
    }
    return factors;
}

std::vector<float> proportional_rope_factors(std::int32_t rope_dim, float share) {
    constexpr float kDoesNotTurn = 1e30F;
    const auto pairs = static_cast<std::size_t>(rope_dim / 2);
    const auto turned = static_cast<std::size_t>(share * static_cast<float>(pairs));
    std::vector<float> factors(pairs, kDoesNotTurn);
    for (std::size_t i = 0; i < std::min(turned, pairs); ++i) factors[i] = 1.0F;
    return factors;
}

}  // namespace helix::model
