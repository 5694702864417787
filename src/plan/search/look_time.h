#pragma once

#include <cstddef>

namespace helix::plan {

// The time that so many last looks at plans take, so many side by side, where a full look took
// full_look on average, in the same unit: a last look runs 420 s of the simulated clock, a full one
// 180 s (lab/planning/plan_judge.h). full_look is not negative, side_by_side at least 1.
double time_of_last_looks(double full_look, std::size_t looks, int side_by_side);

}  // namespace helix::plan
