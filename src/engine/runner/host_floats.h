#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/weight_source.h"

namespace helix::engine {

// The first floats of a tensor of type f32, for this machine's memory. Errors name the tensor.
base::Result<std::vector<float>> first_floats(model::WeightSource& source, const char* name,
                                              std::int64_t count);

// The sum and all products of a row of a matrix and x, added one behind the other.
double add_products(double sum, std::span<const float> row, std::span<const double> x);

}  // namespace helix::engine
