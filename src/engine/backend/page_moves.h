#pragma once

#include <cstdint>

#include "base/result.h"
#include "core/protocol/batch_plan.h"

namespace helix::engine {

// invalid: the plan moves pages or slots that are not there, of which there are so many, copies a
// page to itself, or swaps both ways.
base::Status check_moves(const core::BatchPlan& plan, std::int64_t pages, std::int64_t swap_pages);

}  // namespace helix::engine
