#include "model/quant/grid_points.h"

#include <algorithm>

namespace helix::model::quant {

OddScales fit_groups(const float* values, int size, float top_level, unsigned top_odd) {
    const int count = 256 / size;
    float units[16];
    for (int group = 0; group < count; ++group)
        units[group] = greatest_magnitude(values + size * group, size) / top_level;
    OddScales fit;
    const float greatest = *std::max_element(units, units + count);
    fit.scale = float_to_half(greatest / static_cast<float>(2 * top_odd + 1));
    const float scale = half_to_float(fit.scale);
    for (int i = 0; i < count; ++i) {
        const float half = scale > 0 ? (units[i] / scale - 1.0F) * 0.5F : 0.0F;
        const long odd = std::clamp(std::lrintf(half), 0L, static_cast<long>(top_odd));
        fit.odd[i] = static_cast<unsigned>(odd);
        fit.unit[i] = scale * static_cast<float>(2 * odd + 1);
    }
    return fit;
}

Magnitudes magnitudes_of(const float* values, float unit, bool even) {
    Magnitudes of{};
    int least = 0;
    for (int e = 0; e < 8; ++e) {
        of.numbers[e] = unit > 0 ? std::fabs(values[e]) / unit : 0.0F;
        if (std::signbit(values[e])) of.signs |= 1U << static_cast<unsigned>(e);
        if (of.numbers[e] < of.numbers[least]) least = e;
    }
    if (even && std::popcount(of.signs) % 2 != 0) {
        of.signs ^= 1U << static_cast<unsigned>(least);
        of.numbers[least] = -of.numbers[least];
    }
    return of;
}

float greatest_magnitude(const float* values, int count) {
    float greatest = 0;
    for (int i = 0; i < count; ++i) greatest = std::max(greatest, std::fabs(values[i]));
    return greatest;
}

}  // namespace helix::model::quant
