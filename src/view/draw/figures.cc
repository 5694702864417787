#include "view/draw/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/escape.h"

#include "spec/units.h"

namespace helix::view {

std::string markup(std::string_view text) {
    std::string plain(text);
    std::replace_if(
        plain.begin(), plain.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; },
        ' ');
    return base::escaped_markup(plain);
}

std::string format_count(double value) {
    const double size = std::abs(value);
    if (size < 99.95 && value != std::round(value)) return fmt::format("{:.3g}", value);
    if (size < 999.95 && value != std::round(value)) return fmt::format("{:.1f}", value);
    std::string digits = fmt::format("{:.0f}", value);
    for (auto i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > (value < 0 ? 1 : 0); i -= 3) {
        digits.insert(static_cast<std::size_t>(i), ",");
    }
    return digits;
}

std::string format_percent(double share) {
    const double percent = share * 100;
    if (percent > 0 && percent < 0.05) return "<0.1" + std::string(kNoBreak) + "%";
    const bool whole = percent == 0 || percent >= 9.95;
    return fmt::format("{:.{}f}{}%", percent, whole ? 0 : 1, kNoBreak);
}

std::string format_seconds(double seconds) {
    std::string text = seconds == 0 ? "0 s" : spec::format_duration(seconds);
    const std::size_t space = text.find(' ');
    if (space != std::string::npos) text.replace(space, 1, kNoBreak);
    return text;
}

std::vector<double> round_ticks(double low, double high, int n) {
    if (!(high > low)) return {low};
    const double raw = (high - low) / n;
    const double power = std::pow(10, std::floor(std::log10(raw)));
    double step = 10 * power;
    for (const double factor : {1.0, 2.0, 5.0}) {
        if (factor * power >= raw * 0.999) {
            step = factor * power;
            break;
        }
    }
    std::vector<double> ticks;
    const double slack = step * 1e-9;
    for (double k = std::ceil((low - slack) / step); k * step <= high + slack; ++k) {
        ticks.push_back(k == 0 ? 0 : k * step);
    }
    return ticks;
}

}  // namespace helix::view
