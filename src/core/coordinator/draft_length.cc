#include "core/coordinator/draft_length.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace helix::core {
namespace {

constexpr double kDraftMeanOver = 8;  // drafted tokens put to the test
constexpr double kLeastLikely = 0.3;
constexpr std::int32_t kTryEvery = 16;  // steps
constexpr double kMostLikely = 0.999;   // of a mean, whatever was seen

}  // namespace

std::int32_t DraftLength::next(std::int32_t most) {
    if (most <= 0) return 0;
    if (rate_ < kLeastLikely) {
        if (++steps_without_ < kTryEvery) return 0;
        steps_without_ = 0;
        return 1;
    }
    const double likely = std::log(kLeastLikely) / std::log(std::min(rate_, kMostLikely));
    return static_cast<std::int32_t>(std::min(static_cast<double>(most), likely));
}

void DraftLength::note(std::int32_t sent, std::int32_t right) {
    CHECK(0 <= right && right <= sent);
    for (std::int32_t i = 0; i < right; ++i) rate_ += (1 - rate_) / kDraftMeanOver;
    if (right < sent) rate_ -= rate_ / kDraftMeanOver;
}

}  // namespace helix::core
