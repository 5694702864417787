#include "plan/search/look_time.h"

#include "base/check.h"

namespace helix::plan {
namespace {

constexpr double kLastOverFull = 420.0 / 180.0;  // of what they simulate

}  // namespace

double time_of_last_looks(double full_look, std::size_t looks, int side_by_side) {
    CHECK(full_look >= 0);
    CHECK(side_by_side >= 1);
    const auto at_once = static_cast<std::size_t>(side_by_side);
    const std::size_t turns = (looks + at_once - 1) / at_once;
    return full_look * kLastOverFull * static_cast<double>(turns);
}

}  // namespace helix::plan
