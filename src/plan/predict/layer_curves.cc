#include "plan/predict/layer_curves.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

namespace helix::plan {
namespace {

constexpr std::int32_t kMostDecodes = 512;
constexpr std::array<std::int32_t, 6> kDecodes = {0, 1, 8, 32, 128, 512};
constexpr std::array<std::int32_t, 10> kRows = {0, 1, 16, 32, 64, 128, 256, 512, 1024, 2048};

// Where x lies between two samples: the lower one's index and how far it is to the next. Beyond the
// last, the last line goes on.
template <std::size_t N>
std::pair<std::size_t, double> locate(const std::array<std::int32_t, N>& samples, double x) {
    std::size_t k = 0;
    while (k + 2 < N && x >= samples[k + 1]) ++k;
    return {k, (x - samples[k]) / (samples[k + 1] - samples[k])};
}

}  // namespace

LayerCurves::LayerCurves(const spec::NodeSpec& node, const spec::CostModel& costs,
                         double mean_prompt) {
    decode_s_.reserve(kMostDecodes + 1);
    for (std::int32_t n = 0; n <= kMostDecodes; ++n) decode_s_.push_back(costs.layer_s(node, n, 0));
    for (const std::int32_t decodes : kDecodes) {
        const double alone = costs.layer_s(node, decodes, 0);
        for (const std::int32_t rows : kRows)
            prompt_s_.push_back(costs.layer_s(node, decodes, rows) - alone);
    }
    const auto below = static_cast<std::int32_t>(std::floor(mean_prompt));
    const double part = mean_prompt - below;
    mean_prompt_s_ =
        (1 - part) * costs.layer_s(node, 0, below) + part * costs.layer_s(node, 0, below + 1);
}

double LayerCurves::decode_s(double decodes) const {
    const double last = kMostDecodes - 1;
    const auto k = static_cast<std::size_t>(std::clamp(decodes, 0.0, last));
    return decode_s_[k] + (decodes - static_cast<double>(k)) * (decode_s_[k + 1] - decode_s_[k]);
}

double LayerCurves::prompt_s(double prompt_rows, double decodes) const {
    const auto [d, to_next_d] = locate(kDecodes, decodes);
    const auto [r, to_next_r] = locate(kRows, prompt_rows);
    const auto at = [&](std::size_t decode, std::size_t row) {
        return prompt_s_[decode * kRows.size() + row];
    };
    const double low = at(d, r) + to_next_r * (at(d, r + 1) - at(d, r));
    const double high = at(d + 1, r) + to_next_r * (at(d + 1, r + 1) - at(d + 1, r));
    return low + std::min(to_next_d, 1.0) * (high - low);
}

}  // namespace helix::plan
