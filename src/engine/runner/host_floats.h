#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "model/weight_source.h"

namespace helix::engine {

// The first floats of a tensor of type f32, for this machine's memory. Errors name the tensor.
base::Result<std::vector<float>> first_floats(model::WeightSource& source, const char* name,
                                              std::int64_t count);

}  // namespace helix::engine
