#pragma once

#include <string>

#include "sim/load/trace_file.h"

namespace helix::lab {

// How many requests there are, how they arrive and how long they are: lines for people, or one JSON
// object. The trace has a request at least.
std::string describe_trace(const sim::Trace& trace, bool json);

}  // namespace helix::lab
