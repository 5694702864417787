#pragma once

#include "plan/problem/problem.h"

namespace helix::plan {

// The least time in seconds that a decode's row is on links, whatever the placement: from the
// coordinator through machines that can hold all layers between them and back, each message with
// no more than this row. The shortest path over pairs of a machine and the number of layers that
// are run by then, each machine running one at least and no more than it can hold. (One may come
// again, which no placement allows; that only makes it less.) 0: no such way is known.
double least_travel_s(const Problem& problem);

}  // namespace helix::plan
