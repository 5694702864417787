#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "model/quant/half.h"
#include "model/quant/iq4_nl.h"

// Looking for the scales of blocks that have the least weighted error, the sum of
// w * (x - stored)^2. For given whole numbers (levels) the best scale follows from least squares,
// and for a given scale the best levels are the nearest ones; so both are taken in turns, from
// several scales to begin with. Sums have eight lanes, which compilers make vectors of.

namespace helix::model::quant {

// To the nearest whole number, of two equally near ones the even; |value| is below 2^22.
inline float round_even(float value) {
    constexpr float kShift = 12582912.0F;  // 1.5 * 2^23
    return (value + kShift) - kShift;
}

// What the numbers of a block without offsets are to be: whole ones from low to high, both at most
// 2^22 in magnitude.
struct WholeLevels {
    float low;
    float high;

    float nearest(float number) const {
        const float raised = number < low ? low : number;
        return round_even(raised > high ? high : raised);
    }
    float end() const { return std::max(-low, high); }
    float per_side() const { return end(); }
    bool symmetric() const { return low == -high; }
    // A step, in standard deviations, that suits numbers drawn from a normal distribution.
    float normal_step() const { return 5.0F / (high - low + 1.0F); }
};

// The nearest of kIq4Levels for a number of halves: entry h is for those above h - 1 - 256 and up
// to h - 256. Midpoints of levels are whole numbers of halves, so there is no other case.
constexpr std::array<float, 513> nearest_iq4_levels() {
    std::array<float, 513> nearest{};
    for (int h = 0; h < 513; ++h) {
        int level = 0;
        while (level < 15 && h - 256 > kIq4Levels[level] + kIq4Levels[level + 1]) ++level;
        nearest[static_cast<std::size_t>(h)] = kIq4Levels[level];
    }
    return nearest;
}
inline constexpr std::array<float, 513> kNearestIq4Levels = nearest_iq4_levels();

// kIq4Levels.
struct UnevenLevels {
    float nearest(float number) const {
        const float raised = number < -128.0F ? -128.0F : number;
        const float halves = 2.0F * (raised > 128.0F ? 128.0F : raised) + 256.0F;
        const auto whole = static_cast<std::uint32_t>(halves);
        return kNearestIq4Levels[whole + (halves > static_cast<float>(whole) ? 1 : 0)];
    }
    float end() const { return 127.0F; }
    float per_side() const { return 8.0F; }
    bool symmetric() const { return false; }
    float normal_step() const { return 0.02F; }
};

inline float sum_lanes(const float (&lanes)[8]) {
    float sum = 0;
    for (const float lane : lanes) sum += lane;
    return sum;
}

// With the levels nearest to inverse * x: the scale of least error for them, and by how much it is
// less than with all zeros.
struct ScaleFit {
    float scale = 0;
    float gain = 0;
};
template <int kSize, typename Levels>
ScaleFit fit_levels(const Levels& levels, const float* x, const float* w, float inverse) {
    float products[8] = {};
    float squares[8] = {};
    for (int i = 0; i < kSize; i += 8) {
        for (int k = 0; k < 8; ++k) {
            const float level = levels.nearest(x[i + k] * inverse);
            products[k] += w[i + k] * x[i + k] * level;
            squares[k] += w[i + k] * level * level;
        }
    }
    const float product = sum_lanes(products);
    const float square = sum_lanes(squares);
    if (!(square > 0)) return {};
    return {product / square, product * product / square};
}

template <int kSize, typename Levels>
float scale_error(const Levels& levels, const float* x, const float* w, float scale) {
    const float inverse = scale != 0 ? 1.0F / scale : 0.0F;
    float errors[8] = {};
    for (int i = 0; i < kSize; i += 8) {
        for (int k = 0; k < 8; ++k) {
            const float off = x[i + k] - scale * levels.nearest(x[i + k] * inverse);
            errors[k] += w[i + k] * off * off;
        }
    }
    return sum_lanes(errors);
}

// The scale of values without offset. Begins with those that bring the greatest magnitude to
// between two thirds and more than twice the last level, with either sign, and with some that suit
// the mean square.
template <int kSize, typename Levels>
float search_scale(const Levels& levels, const float* x, const float* w) {
    constexpr int kSteps = 24;
    float greatest = 0;
    float total = 0;
    float squares = 0;
    for (int i = 0; i < kSize; ++i) {
        greatest = std::max(greatest, std::fabs(x[i]));
        total += w[i];
        squares += w[i] * x[i] * x[i];
    }
    if (!(greatest > 0)) return 0;
    ScaleFit best;
    const auto offer = [&](float inverse) {
        for (int turn = 0; turn < (levels.symmetric() ? 1 : 2); ++turn, inverse = -inverse) {
            const ScaleFit fit = fit_levels<kSize>(levels, x, w, inverse);
            if (fit.gain > best.gain) best = fit;
        }
    };
    // Many levels leave little to be clipped.
    const float reach = 1.0F + 5.0F / levels.per_side();
    const float least = 1.0F / (1.0F + 2.0F / levels.per_side());
    for (int i = 0; i < kSteps; ++i) {
        const float share = static_cast<float>(i) / (kSteps - 1);
        offer(levels.end() / greatest * (least + share * (reach - least)));
    }
    if (total > 0 && squares > 0) {
        const float deviation = std::sqrt(squares / total);
        for (const float factor : {0.7F, 1.0F, 1.4F})
            offer(1.0F / (factor * levels.normal_step() * deviation));
    }
    for (int turn = 0; turn < 8 && best.scale != 0; ++turn) {
        const ScaleFit fit = fit_levels<kSize>(levels, x, w, 1.0F / best.scale);
        if (!(fit.gain > best.gain)) break;
        best = fit;
    }
    return best.scale;
}

// Values that are stored as step * level + start, levels from 0 to top.
struct Line {
    float step = 0;
    float start = 0;
};

template <int kSize>
float line_error(const float* x, const float* w, Line line, float top) {
    const WholeLevels levels{0, top};
    const float inverse = line.step != 0 ? 1.0F / line.step : 0.0F;
    float errors[8] = {};
    for (int i = 0; i < kSize; i += 8) {
        for (int k = 0; k < 8; ++k) {
            const float above = x[i + k] - line.start;
            const float off = above - line.step * levels.nearest(above * inverse);
            errors[k] += w[i + k] * off * off;
        }
    }
    return sum_lanes(errors);
}

// The line of least error for the levels that another one gives; with at_most_zero its start is so.
template <int kSize>
Line refit_line(const float* x, const float* w, Line line, float top, bool at_most_zero) {
    const WholeLevels levels{0, top};
    const float inverse = line.step != 0 ? 1.0F / line.step : 0.0F;
    float sums[5][8] = {};
    for (int i = 0; i < kSize; i += 8) {
        for (int k = 0; k < 8; ++k) {
            const float weight = w[i + k];
            const float level = levels.nearest((x[i + k] - line.start) * inverse);
            sums[0][k] += weight;
            sums[1][k] += weight * level;
            sums[2][k] += weight * level * level;
            sums[3][k] += weight * x[i + k];
            sums[4][k] += weight * x[i + k] * level;
        }
    }
    const double n = sum_lanes(sums[0]);
    const double q = sum_lanes(sums[1]);
    const double qq = sum_lanes(sums[2]);
    const double v = sum_lanes(sums[3]);
    const double vq = sum_lanes(sums[4]);
    const double determinant = n * qq - q * q;
    if (!(determinant > 1e-9 * n * qq)) return line;
    const double step = (n * vq - q * v) / determinant;
    const double start = (v - step * q) / n;
    if (at_most_zero && start > 0) return {static_cast<float>(qq > 0 ? vq / qq : 0), 0};
    return {static_cast<float>(step), static_cast<float>(start)};
}

// The line of values with an offset. Begins with those that leave out some of either end.
template <int kSize>
Line search_line(const float* x, const float* w, float top, bool at_most_zero) {
    constexpr float kLeftOut[] = {-0.05F, 0.0F, 0.07F, 0.16F, 0.28F};
    const auto [least, greatest] = std::minmax_element(x, x + kSize);
    const float low = at_most_zero ? std::min(*least, 0.0F) : *least;
    const float range = *greatest - low;
    if (!(range > 0)) return {0, low};
    // Many levels leave little to be clipped.
    const float part = std::min(1.0F, 12.0F / (top + 1.0F));
    Line best{range / top, low};
    float best_error = line_error<kSize>(x, w, best, top);
    for (const float below : kLeftOut) {
        for (const float above : kLeftOut) {
            const float left = 1.0F - part * (below + above);
            const float start = low + part * below * range;
            Line line{range * left / top, at_most_zero ? std::min(start, 0.0F) : start};
            line = refit_line<kSize>(x, w, line, top, at_most_zero);
            const float error = line_error<kSize>(x, w, line, top);
            if (error < best_error) best = line, best_error = error;
        }
    }
    for (int turn = 0; turn < 6; ++turn) {
        const Line line = refit_line<kSize>(x, w, best, top, at_most_zero);
        const float error = line_error<kSize>(x, w, line, top);
        if (!(error < best_error)) break;
        best = line, best_error = error;
    }
    return best;
}

inline float rounded_to_half(float value) {
    return half_to_float(float_to_half(value));
}

}  // namespace helix::model::quant
